# Which files of a folder make up a source. A set of files is the list of its paths; a folder stands for all below it.
lib:
let
  inherit (lib) any hasPrefix;
  text = toString;
  under = folder: path: path == folder || hasPrefix (folder + "/") path;
  covers =
    set: path: any (part: under part path) set.paths && !any (part: under part path) set.without;
  # A folder on the way to a file that is in.
  leadsTo = set: path: any (part: under path part) set.paths;
  make = paths: without: {
    _type = "fileset";
    inherit paths without;
  };
  coerce =
    x:
    if lib.isType "fileset" x then
      x
    else if builtins.pathExists x then
      make [ (text x) ] [ ]
    else
      throw "lib.fileset: ${text x} does not exist";
in
{
  unions =
    sets:
    let
      all = map coerce sets;
    in
    make (lib.concatMap (set: set.paths) all) (lib.concatMap (set: set.without) all);
  difference = set: away: make (coerce set).paths ((coerce set).without ++ (coerce away).paths);
  maybeMissing = path: if builtins.pathExists path then coerce path else make [ ] [ ];
  toSource =
    { root, fileset }:
    let
      set = coerce fileset;
    in
    {
      origSrc = root;
      outPath = builtins.path {
        path = root;
        name = "source";
        filter = path: _: covers set path || leadsTo set path;
      };
    };

  cleanSource =
    folder:
    builtins.path {
      path = folder;
      name = "source";
      filter =
        path: _:
        !lib.elem (baseNameOf path) [
          ".git"
          "result"
          "target"
        ];
    };
}
