# Declaring options, and listing them for documentation.
lib: {
  mkOption = declaration: declaration // { _type = "option"; };
  mkEnableOption =
    what:
    lib.mkOption {
      type = lib.types.bool;
      default = false;
      example = true;
      description = "Whether to enable ${what}.";
    };
  mkPackageOption =
    pkgs: name:
    {
      default ? name,
      nullable ? false,
      extraDescription ? "",
      ...
    }:
    lib.mkOption {
      type = if nullable then lib.types.nullOr lib.types.package else lib.types.package;
      default = if default == null then null else lib.getAttrFromPath (lib.toList default) pkgs;
      defaultText = lib.literalExpression "pkgs.${lib.concatStringsSep "." (lib.toList default)}";
      description = "The ${lib.concatStringsSep "." (lib.toList name)} package to use. ${extraDescription}";
    };
  literalExpression = text: {
    _type = "literalExpression";
    inherit text;
  };
  literalMD = text: {
    _type = "literalMD";
    inherit text;
  };
  isOption = lib.isType "option";
  showOption = lib.concatStringsSep ".";

  # An old option path that stands for a new one.
  mkAliasOptionModule =
    from: to:
    { config, options, ... }:
    {
      options = lib.setAttrByPath from (
        lib.mkOption {
          type = lib.types.unspecified;
          description = "Alias of {option}`${lib.showOption to}`.";
          apply = _: lib.getAttrFromPath to config;
        }
      );
      config =
        let
          old = lib.getAttrFromPath from options;
        in
        lib.mkMerge (
          map (definition: lib.setAttrByPath to definition) (lib.optionals old.isDefined old.rawDefinitions)
        );
    };
  mkRenamedOptionModule = lib.mkAliasOptionModule;

  # Every option below a set of options, those inside submodules included.
  optionAttrSetToDocList =
    options:
    let
      describe =
        option:
        let
          shown =
            value:
            if lib.isType "literalExpression" value || lib.isType "literalMD" value then
              value
            else
              {
                _type = "literalExpression";
                text = lib.toJSON value;
              };
        in
        {
          name = lib.showOption option.loc;
          inherit (option) loc;
          description = option.description or null;
          internal = option.internal or false;
          visible = option.visible or true;
          readOnly = option.readOnly or false;
          type = option.type.description or "unspecified value";
        }
        // lib.optionalAttrs (option ? example) { example = shown option.example; }
        // lib.optionalAttrs (option ? defaultText) { default = shown option.defaultText; }
        // lib.optionalAttrs (option ? default && !option ? defaultText) {
          default = shown option.default;
        };
      below = option: lib.optionAttrSetToDocList ((option.type.getSubOptions or (_: { })) option.loc);
      list =
        node:
        if lib.isOption node then [ (describe node) ] ++ below node else lib.optionAttrSetToDocList node;
    in
    lib.concatLists (
      lib.mapAttrsToList (
        name: node: lib.optionals (name != "_module" && lib.isAttrs node) (list node)
      ) options
    );
}
