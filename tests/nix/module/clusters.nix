# Several clusters on one host, with and without a proxy of the top level.
{
  lib,
  host,
  hostWith,
  clusters,
  packageOf,
  settingsOfCluster,
  complaints,
  is,
  ...
}:
let
  units = config: lib.filter (lib.hasPrefix "helios-proxy") (lib.attrNames config.systemd.services);
  one = {
    package = packageOf "1";
    nodes.pg1 = "10.1.0.11";
    port = 6432;
    admin.address = "127.0.0.1:9091";
  };
in
{
  "the top level and its clusters run side by side" =
    is
      [
        "helios-proxy"
        "helios-proxy-orders"
      ]
      (
        units (host {
          enable = true;
          nodes.pg1 = "10.0.0.11";
          clusters.orders = one;
        })
      );

  "clusters alone need no proxy of the top level, whether it is enabled or not" =
    let
      alone =
        enable:
        let
          config = host {
            inherit enable;
            clusters.orders = one;
          };
        in
        [
          (units config)
          (complaints config)
        ];
      want = [
        [ "helios-proxy-orders" ]
        [ ]
      ];
    in
    is [ want want ] [ (alone false) (alone true) ];

  "a cluster has every option of the top level but clusters" =
    let
      top = (hostWith [ ]).services.helios-proxy;
      cluster = (host { clusters.orders = one; }).services.helios-proxy.clusters.orders;
    in
    is (lib.attrNames (removeAttrs top [ "clusters" ])) (lib.attrNames cluster);

  "each cluster has a file of its own" =
    let
      config = clusters {
        orders.checkFall = 3;
        stock.settings.topology.scope = "stock";
      };
    in
    is
      [
        3
        5
        "stock"
      ]
      [
        (settingsOfCluster config "orders").health.failure_threshold
        (settingsOfCluster config "stock").health.failure_threshold
        (settingsOfCluster config "stock").topology.scope
      ];
}
