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
