# What a definition may be wrapped in: a condition, several at once, a priority, an order.
#
# A definition is { file; value; } here; `file` is for messages only.
lib:
let
  inherit (lib) isType concatMap;
  under = definition: value: definition // { inherit value; };
  priority =
    definition: if isType "override" definition.value then definition.value.priority else 100;
  place = definition: if isType "order" definition.value then definition.value.priority else 1000;
  inside =
    type: definition:
    if isType type definition.value then under definition definition.value.content else definition;
in
{
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkOverride = priority: content: {
    _type = "override";
    inherit priority content;
  };
  mkOrder = priority: content: {
    _type = "order";
    inherit priority content;
  };
  mkOptionDefault = lib.mkOverride 1500;
  mkDefault = lib.mkOverride 1000;
  mkForce = lib.mkOverride 50;

  # Conditions decided and merges taken apart.
  unfoldDefinition =
    definition:
    let
      inherit (definition) value;
    in
    if isType "if" value then
      if value.condition then lib.unfoldDefinition (under definition value.content) else [ ]
    else if isType "merge" value then
      concatMap (content: lib.unfoldDefinition (under definition content)) value.contents
    else
      [ definition ];

  # The lowest number that any of them has.
  strongestPriority = lib.foldl' (best: d: if priority d < best then priority d else best) 9999;

  # Those that count, bare, in their order.
  winningDefinitions =
    definitions:
    let
      strongest = lib.strongestPriority definitions;
      winners = map (inside "override") (lib.filter (d: priority d == strongest) definitions);
    in
    map (inside "order") (lib.sort (one: other: place one < place other) winners);

  # One level down: the wrapping of a set becomes the wrapping of each of its values, so that the names in it are known
  # before any condition is.
  spreadDefinition =
    definition:
    let
      inherit (definition) value;
      each = wrap: content: map (d: under d (lib.mapAttrs (_: wrap) d.value)) (spread content);
      spread = content: lib.spreadDefinition (under definition content);
    in
    if isType "if" value then
      each (lib.mkIf value.condition) value.content
    else if isType "merge" value then
      concatMap spread value.contents
    else if isType "override" value then
      each (lib.mkOverride value.priority) value.content
    else if isType "order" value then
      each (lib.mkOrder value.priority) value.content
    else
      [ definition ];

  # The definitions of one name among definitions of sets.
  definitionsOf = name: concatMap (d: lib.optional (d.value ? ${name}) (under d d.value.${name}));
}
