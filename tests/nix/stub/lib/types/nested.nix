# Types whose values are modules.
lib:
let
  inherit (lib) isAttrs;
  inherit (lib.types) mkOptionType;
in
rec {
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
}
