# `nix run .#demo`: the example `demo` with all that it starts. It runs as any user but root, and changes nothing.
{
  lib,
  stdenv,
  helios-proxy,
  makeWrapper,
  etcd,
  openssl,
  patroni,
  postgresql,
}:
helios-proxy.overrideAttrs (old: {
  pname = "helios-proxy-demo";
  nativeBuildInputs = old.nativeBuildInputs or [ ] ++ [ makeWrapper ];
  cargoBuildFlags = [
    "--bin=helios-proxy"
    "--example=demo"
  ];
  doCheck = false;
  postInstall = ''
    install -D "target/${stdenv.hostPlatform.rust.cargoShortTarget}/release/examples/demo" "$out/bin/helios-proxy-demo"
    wrapProgram "$out/bin/helios-proxy-demo" \
      --set-default HELIOS_LAB_PROXY "$out/bin/helios-proxy" \
      --prefix PATH : ${
        lib.makeBinPath [
          etcd
          openssl
          patroni
          postgresql
        ]
      }
  '';
  meta = old.meta // {
    mainProgram = "helios-proxy-demo";
  };
})
