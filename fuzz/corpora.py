"""Write the corpora: valid inputs of each target, and inputs that found bugs."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Minimal inputs that caused a traceback or a wrong matrix in the past
FOUND = {
    "text": (
        b'\0user,item,value\n"a",""x" ,y",2\n', b'\0user,item\n1,""1""\n',
        b'\0user,item\nb,1\nc,"2""',
        b'\0user,item,"value\na,x,3\n', b"\x0bwho,what\r\r\na,5\r\r\n", b'\x08user,itemx,1\na,x,"',
        b"\1userID\tartistID\tweight\n2\t51\t3\n\t", b"\7item;user;rating\nx;a;1\n\t",
        b"\nuser,item\n1,1\n1,\t2\n", b'\nuser",item,"value\na,x,3\n', b'\x08"",""',
        b"\x031::\t1193::5::9\n1::661::3::9\n", b"\7who::what\r.5\n9::1\r\n8::2\r\n",
        b"\t1,5u\xe2\x80\xa8\n\t1,5u\xe2\x80\xa8", b"\x06ne::1:5::9\r\0:5::9\r\n\n1::~::",
    ),
    "lightgcn": (
        b"0 1 2 3\n1 2\n\xef\xbb\xbf 0 4 5 6", b"0\t5\r\n1\r737\r\n", b'"\xe2\x80\xa8""\n3 4',
        b"\n\n\xef\xbb\xbf3 4",
    ),
    "containers": (b'\x02"x::X"\ny::Y\n',),
    "interactions": (
        bytes.fromhex("f032146340b0521141114f15344fcf2335d7968cb2ee6ec70d4758d01163641d"),
        bytes.fromhex("6edd1f3897c7b4546ec5d8bf91bcdc143cc8a17e73b97038e339af8a"),
        bytes.fromhex("87e6ef21ef4a452acea1e24e1dc40f43"),
        bytes.fromhex("2cd7423dbb64043c24e1454301e6f5b3a03515268de228099cd12f1b97d7"),
    ),
    "commands": (
        bytes([0, 1, 2, 3]), bytes([250, 7, 7, 7, 7]),
        bytes.fromhex("d3704792b17e7e"),
        bytes.fromhex("d7e903a6708ad97a5affffffffa6708ad97a5af48cb3468cb346"),
        bytes.fromhex("fe53196808f95f5fc93ec2"),
    ),
}  # fmt: skip


_BYTES = 6_000


def main() -> None:
    """Write a few kilobytes for each target."""
    from fuzz.targets import CORPUS, NAMES, target

    for name in NAMES:
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        tried, random = target(name), Random(0)
        seeds = list(tried.seeds())
        changed = [tried.changed(random, random.choice(seeds), seeds) for _ in range(4)]
        starts = list(seeds) if tried.isolated else [*changed, *seeds]
        while sum(map(len, starts)) > _BYTES:
            starts.pop()
        for number, content in enumerate([*FOUND.get(name, ()), *starts]):
            kind = "found" if number < len(FOUND.get(name, ())) else "start"
            (folder / f"{kind}-{number:02}").write_bytes(content)


if __name__ == "__main__":
    main()
