"""Run the AVX-512 kernels on a machine without AVX-512: boot a Linux kernel in Bochs, whose only program is the test.

    python tests/kernels/avx512.py                              # 8000 values of each op and format
    python tests/kernels/avx512.py --kernel VMLINUZ -- --only gemm --values 20000

Needs Debian's bochs, bochsbios, vgabios, isolinux, syslinux-common and xorriso, and a kernel image: --kernel, or
linux-image-cloud-amd64, which is fetched with apt-get download. Arguments after -- go to the test program. An emulated
processor does some 20 million instructions a second, so this takes minutes; what the program prints is shown at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "kernels"
ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
LOADER = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
BIOS = Path("/usr/share/bochs/BIOS-bochs-latest")
VGABIOS = Path("/usr/share/bochs/VGABIOS-lgpl-latest")
# Bochs 2.7 describes the layout of XSAVE's memory wrongly, and Linux 6.1 comes to a halt on it unless it leaves some
# other features of this processor alone; none of them concerns the instructions under test.
WITHOUT = "pku,ospke,xsaves,xsavec,pcid,invpcid,fsrm,erms,rep_good,fsgsbase,smap,smep,umip,rdpid,popcnt"
PARAMETERS = f"clearcpuid={WITHOUT} console=ttyS0 panic=-1 acpi=off noapic nolapic tsc=reliable mitigations=off quiet"
# The kernel stops with this when its only program ends; the number is the program's exit code times 256.
END = re.compile(r"Attempted to kill init! exitcode=0x([0-9a-f]+)")


def need(path: Path, package: str) -> Path:
    if not path.exists():
        sys.exit(f"avx512.py: {path} is missing; on Debian: apt-get install {package}")
    return path


def kernel_image(given: str | None, folder: Path) -> Path:
    """Return the given kernel, or Debian's, downloaded and unpacked but not installed."""
    if given is not None:
        return need(Path(given), "linux-image-cloud-amd64, or pass another --kernel")
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=True)
    found = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
    if found is None:
        sys.exit("avx512.py: apt-cache knows no linux-image-cloud-amd64; pass --kernel VMLINUZ")
    print(f"fetching {found[1]}", flush=True)
    subprocess.run(["apt-get", "download", found[1]], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["dpkg", "-x", next(folder.glob("*.deb")), folder], check=True)
    return next((folder / "boot").glob("vmlinuz-*"))


def initramfs(program: Path) -> bytes:
    """Return a cpio archive (newc) with the program as /init."""

    def entry(name: bytes, mode: int, data: bytes) -> bytes:
        fields = (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name + b"\0"
        return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)

    return entry(b"init", 0o100755, program.read_bytes()) + entry(b"TRAILER!!!", 0, b"")


def boot_image(kernel: Path, program: Path, arguments: list[str], folder: Path) -> Path:
    """Return a CD image that boots the kernel with these arguments for /init."""
    content = folder / "iso"
    content.mkdir()
    for source in (need(ISOLINUX, "isolinux"), need(LOADER, "syslinux-common")):
        (content / source.name).write_bytes(source.read_bytes())
    (content / "vmlinuz").write_bytes(kernel.read_bytes())
    (content / "initrd").write_bytes(initramfs(program))
    config = (
        f"default test\nprompt 0\nlabel test\nkernel vmlinuz\nappend initrd=initrd {PARAMETERS} -- {' '.join(arguments)}\n"
    )
    (content / "isolinux.cfg").write_text(config)
    image = folder / "test.iso"
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-o", image, "-b", "isolinux.bin", "-c", "boot.cat",
               "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", content]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return image


def emulate(image: Path, folder: Path, limit: float) -> int:
    """Boot the image, show what it prints, and return the exit code of its program."""
    serial = folder / "serial.txt"
    settings = (
        "cpu: model=corei7_icelake_u, ips=20000000, reset_on_triple_fault=0",
        "memory: guest=512, host=512",
        f"romimage: file={need(BIOS, 'bochsbios')}",
        f"vgaromimage: file={need(VGABIOS, 'vgabios')}",
        f"ata0-master: type=cdrom, path={image}, status=inserted",
        "boot: cdrom",
        f"com1: enabled=1, mode=file, dev={serial}",
        f"log: {folder / 'bochs.log'}",
        "sound: driver=dummy",
        'display_library: rfb, options="timeout=0"',
        "clock: sync=none",
    )
    (folder / "bochsrc").write_text("\n".join(settings) + "\n")
    (folder / "commands").write_text("c\n")  # Debian's Bochs has a debugger, which waits for a command
    command = ["bochs", "-q", "-f", folder / "bochsrc", "-rc", folder / "commands"]
    shown, end = 0, time.monotonic() + limit
    with (folder / "bochs.out").open("w") as out, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    ) as bochs:  # fmt: skip
        try:
            while True:
                running = bochs.poll() is None and time.monotonic() < end
                text = serial.read_text(errors="replace") if serial.exists() else ""
                found = END.search(text)
                last = text.rindex("\n", 0, found.start()) + 1 if found else len(text)  # then comes the kernel's report
                print(text[shown:last], end="", flush=True)
                shown = max(shown, last)
                if found:
                    return int(found[1], 16) >> 8
                if not running:
                    log = folder / "bochs.log"
                    print(log.read_text(errors="replace")[-1500:] if log.exists() else "no log", file=sys.stderr)
                    sys.exit(f"avx512.py: the emulator ended, or {limit:.0f} s were not enough (--minutes)")
                time.sleep(1)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(bochs.pid, signal.SIGKILL)


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="a Linux kernel image (default: Debian's, downloaded)")
    parser.add_argument("--program", type=Path, help="a static test program (default: built here)")
    parser.add_argument("--minutes", type=float, default=60, help="give up after this (default 60)")
    parser.add_argument("arguments", nargs="*", help="for the test program (default: --isa v4 --values 8000)")
    args = parser.parse_args()
    program = args.program
    if program is None:
        for command in (["cmake", "--preset", "static"], ["cmake", "--build", "--preset", "static"]):
            subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        program = BUILD / "static" / "test_kernels"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kernel = kernel_image(args.kernel, folder)
        image = boot_image(kernel, program, args.arguments or ["--isa", "v4", "--values", "8000"], folder)
        return emulate(image, folder, args.minutes * 60)


if __name__ == "__main__":
    sys.exit(main())
