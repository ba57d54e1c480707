# Modules: many files that each declare some options and define some, read together as one configuration.
lib:
let
  inherit (lib)
    attrNames
    concatMap
    isFunction
    isPath
    isString
    isType
    mapAttrs
    showOption
    ;

  # A module in any of its spellings -> a list of the same shape, imports first.
  load =
    argumentsFor: from: module:
    let
      fromFile = isPath module || isString module;
      file = if fromFile then toString module else from;
      written = if fromFile then import module else module;
      applied =
        if isFunction written || written ? __functor then
          written (argumentsFor (lib.functionArgs written))
        else
          written;
      whole = if isType "if" applied || isType "merge" applied then { config = applied; } else applied;
      shorthand = !(whole ? config || whole ? options);
      named = whole._file or file;
    in
    concatMap (load argumentsFor named) (whole.imports or [ ])
    ++ [
      {
        key = whole.key or (if fromFile then file else null);
        file = named;
        options = whole.options or { };
        freeform = whole.freeformType or null;
        config =
          if shorthand then
            removeAttrs whole [
              "_file"
              "freeformType"
              "imports"
              "key"
            ]
          else
            whole.config or { };
      }
    ];

  # A file that is imported twice counts once.
  once = lib.foldl' (
    seen: module:
    if module.key != null && lib.any (other: other.key == module.key) seen then
      seen
    else
      seen ++ [ module ]
  ) [ ];

  # What every configuration has.
  own = {
    _file = "<the module system>";
    options._module = {
      args = lib.mkOption {
        type = lib.types.lazyAttrsOf lib.types.raw;
        default = { };
        internal = true;
      };
      freeformType = lib.mkOption {
        type = lib.types.nullOr lib.types.optionType;
        default = null;
        internal = true;
      };
    };
  };

  # One option: its declaration, its definitions, its value.
  option =
    loc: declarations: definitions:
    let
      declared = lib.foldl' (
        all: d:
        let
          twice = attrNames (
            lib.intersectAttrs (removeAttrs all [ "_type" ]) (removeAttrs d.value [ "_type" ])
          );
        in
        if twice == [ ] then
          all // d.value
        else
          throw "The option `${showOption loc}' in `${toString d.file}' is already declared."
      ) { } declarations;
      type = declared.type or lib.types.unspecified;
      given = concatMap lib.unfoldDefinition definitions;
      all =
        given
        ++ lib.optional (declared ? default) {
          file = "its default";
          value = lib.mkOptionDefault declared.default;
        };
      value =
        if declared.readOnly or false && lib.length given > 1 then
          throw "The option `${showOption loc}' is read-only, but it's set multiple times."
        else
          lib.settle loc type all;
    in
    {
      strays = [ ];
      config = if declared ? apply then declared.apply value else value;
      options = declared // {
        inherit loc type value;
        isDefined = all != [ ];
        highestPrio = lib.strongestPriority all;
        rawDefinitions = map (d: d.value) given;
        definitions = map (d: d.value) (lib.winningDefinitions given);
        definitionsWithLocations = lib.winningDefinitions given;
        files = map (d: d.file) given;
        declarations = map (d: d.file) declarations;
        __toString = _: showOption loc;
      };
    };

  # A level of the tree of options; `freeform` takes what nobody declared.
  level =
    loc: freeform: declarations: definitions:
    let
      names = lib.unique (concatMap (d: attrNames d.value) declarations);
      spread = concatMap lib.spreadDefinition definitions;
      below =
        name:
        let
          declared = lib.definitionsOf name declarations;
          defined = lib.definitionsOf name spread;
          deeper = loc ++ [ name ];
        in
        if lib.any (d: isType "option" d.value) declared then
          option deeper declared defined
        else
          level deeper null declared defined;
      levels = lib.genAttrs names below;
      undeclared = concatMap (
        d:
        let
          value = removeAttrs d.value names;
        in
        lib.optional (value != { }) (d // { inherit value; })
      ) spread;
      stray =
        d:
        map (
          name:
          "The option `${showOption (loc ++ [ name ])}' does not exist. Definition values:\n- In `${toString d.file}'"
        ) (attrNames d.value);
    in
    {
      config =
        (if freeform == null || undeclared == [ ] then { } else freeform.merge loc undeclared)
        // mapAttrs (_: l: l.config) levels;
      options = mapAttrs (_: l: l.options) levels;
      strays =
        lib.optionals (freeform == null) (concatMap stray undeclared)
        ++ concatMap (name: levels.${name}.strays) names;
    };
in
{
  definitionFiles = lib.concatMapStringsSep ", " (d: "`${toString d.file}'");

  # The value of an option from its definitions.
  settle =
    loc: type: definitions:
    let
      winners = lib.winningDefinitions definitions;
      wrong = lib.filter (d: !type.check d.value) winners;
    in
    if winners == [ ] then
      throw "The option `${showOption loc}' was accessed but has no value defined. Try setting the option."
    else if wrong != [ ] then
      throw "A definition for option `${showOption loc}' is not of type `${type.description}'. Definition values are in ${lib.definitionFiles wrong}."
    else
      type.merge loc winners;

  evalModules =
    {
      modules,
      specialArgs ? { },
      prefix ? [ ],
      class ? null,
    }:
    let
      fixed = {
        inherit lib config extendModules;
        inherit (tree) options;
      }
      // specialArgs;
      argumentsFor = wanted: mapAttrs (name: _: config._module.args.${name}) wanted // fixed;
      loaded = once (concatMap (load argumentsFor "<unknown-file>") ([ own ] ++ modules));
      freeforms = lib.filter (type: type != null) (map (module: module.freeform) loaded);
      of =
        part:
        map (module: {
          inherit (module) file;
          value = module.${part};
        }) loaded;
      tree = level prefix (if freeforms == [ ] then null else lib.last freeforms) (of "options") (
        of "config"
      );
      # Modules see this one: whether there are strays is not known before they have all been read.
      config = tree.config;
      extendModules =
        more:
        lib.evalModules {
          inherit prefix class;
          specialArgs = specialArgs // (more.specialArgs or { });
          modules = modules ++ (more.modules or [ ]);
        };
      checked =
        if tree.strays == [ ] then removeAttrs config [ "_module" ] else throw (lib.head tree.strays);
    in
    {
      _type = "configuration";
      inherit class extendModules;
      inherit (tree) options;
      config = checked;
      _module = config._module;
      type = lib.types.submoduleWith { inherit modules specialArgs; };
    };

}
