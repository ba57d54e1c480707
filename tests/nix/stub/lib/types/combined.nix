# Types made of other types: this or that, a list or a set of these.
lib:
let
  inherit (lib)
    all
    any
    concatMap
    head
    isAttrs
    ;
  inherit (lib.types) mkOptionType mergeEqualOption;
  values = map (definition: definition.value);

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
  attrsOf = setOf false;
  lazyAttrsOf = setOf true;

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

}
