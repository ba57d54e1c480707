# Other configurations of the same host, to switch to.
{
  lib,
  extendModules,
  ...
}:
let
  special = {
    options = {
      configuration = lib.mkOption {
        type = lib.types.deferredModule;
        default = { };
        apply =
          module:
          (extendModules {
            modules = [
              module
              { specialisation = lib.mkOverride 0 { }; }
            ];
          }).config;
      };
    };
  };
in
{
  options.specialisation = lib.mkOption {
    type = lib.types.attrsOf (lib.types.submodule special);
    default = { };
  };
}
