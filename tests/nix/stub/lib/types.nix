# The types of options: what a value may be, and how several definitions of one option become one value.
lib:
let
  inherit (lib)
    all
    any
    concatMap
    concatStringsSep
    elem
    head
    isAttrs
    isInt
    isString
    length
    showOption
    ;
  values = map (definition: definition.value);

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

  simple =
    description: check:
    mkOptionType {
      name = description;
      inherit check;
    };
  text =
    description: separator:
    mkOptionType {
      name = description;
      check = isString;
      merge = _: definitions: concatStringsSep separator (values definitions);
    };

  integer = description: check: simple description (x: isInt x && check x);
  between =
    lowest: highest:
    integer "integer between ${toString lowest} and ${toString highest} (both inclusive)" (
      x: x >= lowest && x <= highest
    );

  # A set whose values have one type. Where names may be decided late (`lazyAttrsOf`), each that is named is there.
  setOf =
    late: of:
    mkOptionType {
      name = if late then "lazyAttrsOf" else "attrsOf";
      description = "attribute set of ${of.description}";
      check = isAttrs;
      emptyValue.value = { };
      getSubOptions = loc: of.getSubOptions (loc ++ [ "<name>" ]);
      merge =
        loc: definitions:
        let
          spread = concatMap lib.spreadDefinition definitions;
          named = lib.genAttrs (lib.unique (concatMap (d: lib.attrNames d.value) spread)) (
            name: concatMap lib.unfoldDefinition (lib.definitionsOf name spread)
          );
          there = if late then named else lib.filterAttrs (_: found: found != [ ]) named;
        in
        lib.mapAttrs (name: lib.settle (loc ++ [ name ]) of) there;
    };
in
rec {
  inherit mkOptionType mergeEqualOption;

  bool = simple "boolean" lib.isBool;
  int = simple "signed integer" isInt;
  float = simple "floating point number" lib.isFloat;
  number = simple "integer or floating point number" (x: isInt x || lib.isFloat x);
  ints = {
    inherit between;
    unsigned = integer "unsigned integer, meaning >=0" (x: x >= 0);
    positive = integer "positive integer, meaning >0" (x: x > 0);
    u8 = between 0 255;
    u16 = between 0 65535;
    u32 = between 0 4294967295;
  };
  port = between 0 65535;
  str = simple "string" isString;
  singleLineStr = simple "string without newlines" (x: isString x && !lib.hasInfix "\n" x);
  nonEmptyStr = simple "non-empty string" (x: isString x && lib.match "[ \t\n]*" x == null);
  strMatching =
    pattern:
    simple "string matching the pattern ${pattern}" (x: isString x && lib.match pattern x != null);
  lines = text "strings concatenated with \"\\n\"" "\n";
  commas = text "strings concatenated with \",\"" ",";
  separatedString = separator: text "strings concatenated with \"${separator}\"" separator;
  path = simple "absolute path" (x: lib.isStringLike x && lib.substring 0 1 (toString x) == "/");
  package = simple "package" (
    x: lib.isDerivation x || lib.isStringLike x && lib.hasPrefix builtins.storeDir (toString x)
  );
  unspecified = simple "unspecified value" (_: true);
  raw = simple "raw value" (_: true);
  attrs = mkOptionType {
    name = "attribute set";
    check = isAttrs;
    merge = _: definitions: lib.mergeAttrsList (values definitions);
    emptyValue.value = { };
  };
  anything = mkOptionType {
    name = "anything";
    merge =
      loc: definitions:
      if all (x: isAttrs x && !lib.isDerivation x) (values definitions) then
        (lazyAttrsOf anything).merge loc definitions
      else
        mergeEqualOption loc definitions;
  };
  functionTo =
    of:
    mkOptionType {
      name = "function that evaluates to a(n) ${of.description}";
      check = lib.isFunction;
      merge =
        loc: definitions: argument:
        of.merge loc (map (d: d // { value = d.value argument; }) definitions);
    };

  enum =
    words: simple "one of ${lib.concatMapStringsSep ", " builtins.toJSON words}" (x: elem x words);
  uniq = of: of // { merge = mergeEqualOption; };
  unique = _: uniq;
  addCheck = of: check: of // { check = x: of.check x && check x; };

  nullOr =
    of:
    mkOptionType {
      name = "nullOr";
      description = "null or ${of.description}";
      check = x: x == null || of.check x;
      emptyValue.value = null;
      inherit (of) getSubOptions;
      merge =
        loc: definitions:
        if any (x: x == null) (values definitions) then
          mergeEqualOption loc definitions
        else
          of.merge loc definitions;
    };
  either =
    one: other:
    mkOptionType {
      name = "either";
      description = "${one.description} or ${other.description}";
      check = x: one.check x || other.check x;
      merge =
        loc: definitions:
        if all one.check (values definitions) then
          one.merge loc definitions
        else if all other.check (values definitions) then
          other.merge loc definitions
        else
          mergeEqualOption loc definitions;
    };
  oneOf = of: lib.foldl' either (head of) (lib.tail of);
  coercedTo =
    from: coerce: to:
    mkOptionType {
      name = "coercedTo";
      description = "${to.description} or ${from.description} convertible to it";
      check = x: to.check x || from.check x && to.check (coerce x);
      inherit (to) emptyValue getSubOptions;
      merge =
        loc: definitions:
        to.merge loc (
          map (d: d // { value = if from.check d.value then coerce d.value else d.value; }) definitions
        );
    };

  listOf =
    of:
    mkOptionType {
      name = "listOf";
      description = "list of ${of.description}";
      check = lib.isList;
      emptyValue.value = [ ];
      getSubOptions = loc: of.getSubOptions (loc ++ [ "*" ]);
      merge =
        loc: definitions:
        let
          item =
            definition: i: value:
            let
              found = lib.unfoldDefinition (definition // { inherit value; });
            in
            lib.optional (found != [ ]) (lib.settle (loc ++ [ "[definition ${toString (i + 1)}]" ]) of found);
        in
        concatMap (d: lib.concatLists (lib.imap0 (item d) d.value)) definitions;
    };
  nonEmptyListOf = of: addCheck (listOf of) (x: x != [ ]);
  attrsOf = setOf false;
  lazyAttrsOf = setOf true;

  submodule =
    module:
    submoduleWith {
      modules = lib.toList module;
      shorthandOnlyDefinesConfig = true;
    };
  submoduleWith =
    {
      modules,
      specialArgs ? { },
      shorthandOnlyDefinesConfig ? false,
      ...
    }:
    let
      evaluate =
        loc: more:
        lib.evalModules {
          inherit specialArgs;
          prefix = loc;
          modules = [
            { _module.args.name = lib.mkDefault (if loc == [ ] then "" else lib.last loc); }
          ]
          ++ modules
          ++ more;
        };
      asModule =
        { file, value }:
        {
          _file = file;
          imports = [
            (if isAttrs value && shorthandOnlyDefinesConfig then { config = value; } else value)
          ];
        };
    in
    mkOptionType {
      name = "submodule";
      check = x: isAttrs x || lib.isFunction x || lib.isPath x;
      emptyValue.value = { };
      getSubOptions = loc: (evaluate loc [ ]).options;
      merge = loc: definitions: (evaluate loc (map asModule definitions)).config;
    };
  deferredModule = mkOptionType {
    name = "module";
    check = x: isAttrs x || lib.isFunction x || lib.isPath x;
    emptyValue.value = { };
    merge = _: definitions: {
      imports = map (d: {
        _file = d.file;
        imports = [ d.value ];
      }) definitions;
    };
  };
  optionType = simple "option type" (lib.isType "option-type");
}
