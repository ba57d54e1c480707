# What a guest is told in other words.
def switch(machine, name):
    """Switches a machine of NixOS to one of its specialisations, or back to what it was booted with."""
    system = "/run/booted-system"
    if name is not None:
        system += f"/specialisation/{name}"
    machine.succeed(f"{system}/bin/switch-to-configuration test")


