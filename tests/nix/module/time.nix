# HAProxy's time syntax.
{
  lib,
  clusters,
  settingsOfCluster,
  is,
  ...
}:
let
  good = {
    seconds = "5s";
    milliseconds = "500ms";
    bare = "250";
    number = 250;
    minutes = "2m";
    hours = "1h";
    days = "1d";
    microseconds = "2000us";
    fraction = "1us";
    zeros = "007s";
    longest = "2147483647";
  };
  host = clusters (
    lib.mapAttrs (_: time: {
      checkInter = time;
      checkTimeout = time;
    }) good
  );
  read = key: lib.mapAttrs (name: _: (settingsOfCluster host name).health.${key}) good;
  milliseconds = {
    seconds = 5000;
    milliseconds = 500;
    bare = 250;
    number = 250;
    minutes = 120000;
    hours = 3600000;
    days = 86400000;
    microseconds = 2;
    fraction = 1;
    zeros = 7000;
    longest = 2147483647;
  };

  bad = [
    ""
    "0"
    0
    (-1)
    "-1s"
    "5x"
    "5 s"
    "5.5s"
    "s"
    "5S"
    "1s1ms"
    "25d"
    "2147483648"
    "99999999999999999999"
    null
    true
    1.5
    [ ]
  ];
  isTaken =
    option: time:
    (builtins.tryEval (
      builtins.deepSeq (settingsOfCluster (clusters { one.${option} = time; }) "one").health true
    )).success;
  taken = option: lib.filter (isTaken option) bad;
in
{
  "each unit of HAProxy's time becomes milliseconds, and a fraction of one is a whole one" =
    is milliseconds (read "check_interval_ms");
  "the timeout takes the same times as the interval" = is milliseconds (read "check_timeout_ms");
  "what HAProxy would not take as a time is no interval" = is [ ] (taken "checkInter");
  "what HAProxy would not take as a time is no timeout" = is [ ] (taken "checkTimeout");
}
