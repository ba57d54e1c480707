# HAProxy's time syntax (`5s`, `500ms`, a bare number of milliseconds) as an option type and as milliseconds.
{ lib }:
let
  # A number without leading zeros and a unit. Ten digits are more than HAProxy's own limit leaves.
  parts = text: builtins.match "0*([1-9][0-9]{0,9})(us|ms|s|m|h|d)?" (toString text);

  milliseconds = {
    ms = 1;
    s = 1000;
    m = 60 * 1000;
    h = 60 * 60 * 1000;
    d = 24 * 60 * 60 * 1000;
  };

  convert =
    found:
    let
      number = builtins.fromJSON (builtins.elemAt found 0);
      written = builtins.elemAt found 1;
      unit = if written == null then "ms" else written;
    in
    # As HAProxy does: a fraction of a millisecond is a whole one.
    if unit == "us" then (number + 999) / 1000 else number * milliseconds.${unit};

  # HAProxy's own limit, about 24.8 days.
  longest = 2147483647;

  isTime =
    value:
    let
      found = parts value;
    in
    (builtins.isString value || builtins.isInt value) && found != null && convert found <= longest;
in
{
  type = lib.mkOptionType {
    name = "haproxyTime";
    description = ''positive time in HAProxy's syntax ("5s", "500ms", "1m"; units us ms s m h d; a bare number is milliseconds)'';
    check = isTime;
    merge = lib.mergeEqualOption;
  };

  toMilliseconds = value: convert (parts value);
}
