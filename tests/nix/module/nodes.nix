# Nodes: an address, or a set where more is to be said.
{
  usual,
  settingsOf,
  is,
  ...
}:
{
  "a node is an address, or says what differs for it, in our words or the file's own" =
    is
      [
        {
          name = "pg1";
          host = "10.0.0.11";
          port = 15432;
        }
        {
          name = "pg2";
          host = "pg2.example.org";
          port = 6432;
          rest_host = "mgmt2";
          rest_port = 8009;
          weight = 0;
        }
        {
          name = "pg3";
          host = "fd00::3";
          port = 15432;
          enabled = false;
        }
      ]
      (settingsOf (usual {
        pgPort = 15432;
        nodes = {
          pg2 = {
            host = "pg2.example.org";
            port = 6432;
            restHost = "mgmt2";
            restPort = 8009;
            weight = 0;
          };
          pg3 = {
            host = "fd00::3";
            enabled = false;
          };
        };
      })).nodes;

  "the port of the REST API is that of all nodes" =
    is 18008
      (settingsOf (usual {
        restApiPort = 18008;
      })).rest.port;
}
