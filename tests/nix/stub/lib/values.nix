# Lists, attribute sets and small helpers.
lib:
let
  b = builtins;
in
{
  inherit (b)
    add
    all
    any
    attrNames
    attrValues
    concatLists
    concatMap
    elem
    elemAt
    filter
    foldl'
    functionArgs
    genList
    groupBy
    head
    intersectAttrs
    isAttrs
    isBool
    isFloat
    isFunction
    isInt
    isList
    isPath
    isString
    length
    listToAttrs
    map
    mapAttrs
    partition
    removeAttrs
    seq
    sort
    tail
    toJSON
    ;

  max = x: y: if x < y then y else x;
  id = x: x;
  toFunction = f: if lib.isFunction f then f else _: f;

  optional = wanted: x: if wanted then [ x ] else [ ];
  optionals = wanted: list: if wanted then list else [ ];
  optionalAttrs = wanted: set: if wanted then set else { };
  toList = x: if lib.isList x then x else [ x ];
  last = list: b.elemAt list (b.length list - 1);
  range = from: to: lib.genList (i: from + i) (if to < from then 0 else to - from + 1);
  imap0 = f: list: lib.genList (i: f i (b.elemAt list i)) (b.length list);
  imap1 = f: lib.imap0 (i: f (i + 1));
  unique = lib.foldl' (seen: x: if lib.elem x seen then seen else seen ++ [ x ]) [ ];
  flatten = x: if lib.isList x then lib.concatMap lib.flatten x else [ x ];

  nameValuePair = name: value: { inherit name value; };
  genAttrs = names: f: lib.listToAttrs (map (name: lib.nameValuePair name (f name)) names);
  mapAttrs' = f: set: lib.listToAttrs (lib.mapAttrsToList f set);
  mapAttrsToList = f: set: map (name: f name set.${name}) (lib.attrNames set);
  filterAttrs = wanted: set: removeAttrs set (lib.filter (n: !wanted n set.${n}) (lib.attrNames set));
  mergeAttrsList = lib.foldl' (all: part: all // part) { };
  getAttrs = names: set: lib.genAttrs names (name: set.${name});
  recursiveUpdate =
    left: right:
    left
    // lib.mapAttrs (
      name: new:
      let
        old = left.${name} or null;
        deeper = x: lib.isAttrs x && !lib.isDerivation x;
      in
      if deeper new && deeper old then lib.recursiveUpdate old new else new
    ) right;

  isDerivation = x: lib.isType "derivation" x || x.type or null == "derivation";
  isType = type: x: lib.isAttrs x && x._type or null == type;
  isStringLike =
    x: lib.isString x || lib.isPath x || lib.isAttrs x && (x ? outPath || x ? __toString);

  warn = message: b.trace "evaluation warning: ${message}";

  getExe = package: lib.getExe' package (package.meta.mainProgram or package.pname or package.name);
  getExe' = package: program: "${package}/bin/${program}";
  makeBinPath = lib.concatMapStringsSep ":" (package: "${package}/bin");
  importTOML = file: b.fromTOML (b.readFile file);
  callPackageWith =
    scope: file: own:
    let
      f = if lib.isFunction file then file else import file;
      given = lib.intersectAttrs (lib.functionArgs f) scope // own;
      missing = lib.filterAttrs (name: optional: !optional && !given ? ${name}) (lib.functionArgs f);
      built = f given;
    in
    if missing != { } then
      throw "the stand-in for nixpkgs has no ${lib.concatStringsSep ", " (lib.attrNames missing)}"
    else if lib.isAttrs built then
      built // { override = changed: lib.callPackageWith scope file (own // changed); }
    else
      built;

  licenses.asl20 = {
    spdxId = "Apache-2.0";
    free = true;
  };
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];
}
