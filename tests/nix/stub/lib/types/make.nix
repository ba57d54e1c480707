# What a type is made of.
lib:
let
  inherit (lib)
    all
    head
    length
    showOption
    ;
  values = map (definition: definition.value);
in
rec {
  mkOptionType =
    {
      name,
      description ? name,
      check ? _: true,
      merge ? mergeEqualOption,
      emptyValue ? { },
      getSubOptions ? _: { },
      ...
    }:
    {
      _type = "option-type";
      inherit
        name
        description
        check
        merge
        emptyValue
        getSubOptions
        ;
    };

  # One value, said once or several times alike.
  mergeEqualOption =
    loc: definitions:
    let
      first = head (values definitions);
    in
    if length definitions == 1 || all (value: value == first) (values definitions) then
      first
    else
      throw "The option `${showOption loc}' has conflicting definition values in ${lib.definitionFiles definitions}.";

  # A value is judged by itself.
  simple =
    description: check:
    mkOptionType {
      name = description;
      inherit check;
    };
}
