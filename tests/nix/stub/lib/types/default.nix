# The types of options: what a value may be, and how several definitions of one option become one value.
lib:
let
  part = file: import file lib;
in
part ./make.nix // part ./plain.nix // part ./combined.nix // part ./nested.nix
