"""Documentation prose from Debian packages: download, extract, filter, deduplicate, split.

Run `prose.py fetch DIR` once to download and unpack the packages, then `prose.py build DIR OUT`
to write one JSON object a document: {"text", "source", "held_out"}.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lxml.html


@dataclass(frozen=True)
class Source:
    """One Debian package, the licence of its text, and which of its files are read."""

    package: str
    licence: str
    include: str
    cap: int = 4_000_000  # characters: no single manual may dominate


# The main licence of each package's copyright file. Manuals under the GNU Free
# Documentation License are left out on purpose.
SOURCES = (
    Source("manpages", "GPL-2+, BSD and permissive man-pages licences", r"/man/man\d/"),
    Source("manpages-dev", "GPL-2+, BSD and permissive man-pages licences", r"/man/man\d/"),
    Source("openssl", "Apache-2.0", r"/man/man\d/"),
    Source("debian-handbook", "GPL-2+ / CC-BY-SA-3.0", r"/html/en-US/"),
    Source("debian-reference-en", "GPL-2+", r"\.html?"),
    Source("git-doc", "GPL-2", r"\.html"),
    Source(
        "python3.11-doc",
        "PSF-2.0",
        r"/html/(library|tutorial|howto|faq|reference|c-api|using"
        r"|extending|installing|distributing)/",
        6_000_000,
    ),
    Source("postgresql-doc-15", "PostgreSQL", r"/html/", 6_000_000),
    Source("perl-doc", "Artistic or GPL-1+", r"\.pod$", 6_000_000),
    Source("debian-policy", "GPL-2+", r"\.html"),
    Source("developers-reference", "GPL-2", r"\.html"),
    Source("debian-faq", "GPL-2+", r"\.html|\.en\.html"),
    Source("debian-kernel-handbook", "GPL-2+", r"\.html"),
    Source("harden-doc", "GPL-2", r"en.*\.html"),
    Source("aptitude-doc-en", "GPL-2+", r"\.html"),
    Source("maint-guide", "GPL-2+", r"\.en\.html|\.html"),
    Source("installation-guide-amd64", "GPL-2", r"/en/"),
    Source("sqlite3-doc", "public domain", r"\.html", 6_000_000),
    Source("apache2-doc", "Apache-2.0", r"\.html\.en|/en/.*\.html|\.en\.html", 6_000_000),
    Source("python-django-doc", "BSD-3-Clause", r"\.html", 6_000_000),
    Source("python-sqlalchemy-doc", "MIT", r"\.html", 6_000_000),
    Source(
        "python-pandas-doc",
        "BSD-3-Clause",
        r"/(user_guide|getting_started|development"
        r"|whatsnew)/.*\.html",
    ),
    Source("linux-doc-6.1", "GPL-2", r"/html/", 8_000_000),
    Source("cmake-doc", "BSD-3-Clause", r"/html/"),
    Source("scons-doc", "MIT", r"\.html"),
    Source(
        "rust-doc",
        "MIT or Apache-2.0",
        r"/(book|reference|rust-by-example|nomicon|cargo"
        r"|rustc|rustdoc|edition-guide|embedded-book|unstable-book)/.*\.html",
    ),
    Source("octave-doc", "GPL-3+", r"/octave\.html/|/octave/.*\.html"),
    Source("gnuplot-doc", "gnuplot", r"\.html"),
    Source("bind9-doc", "MPL-2.0", r"\.html"),
    Source("postfix-doc", "EPL-2.0 or IPL-1.0", r"\.html"),
    Source("exim4-doc-html", "GPL-2+", r"\.html"),
    Source("dbus-1-doc", "AFL-2.1 or GPL-2+", r"\.html"),
    Source("kicad-doc-en", "GPL-2+ and GPL-3+", r"\.html"),
    Source("libreoffice-help-en-us", "MPL-2.0", r"/en-US/.*\.html", 5_000_000),
    Source("vim-doc", "Vim", r"\.html"),
    Source("zsh-doc", "MIT-like Zsh", r"\.html"),
    Source("r-doc-html", "GPL-2", r"\.html"),
    Source("subversion", "Apache-2.0", r"\.html|/man/man\d/"),
    Source("git-man", "GPL-2", r"/man/man1/", 1_000_000),
)

STOP_WORDS = frozenset("the of to a is in and that for be are it with as this by".split())
BAD_NAMES = re.compile(r"(genindex|search|py-modindex|modindex|/_sources/|/_static/|toc\.html)")
PARAGRAPH_PATH = ".//p|.//div[@class='para']|.//dd[not(.//p)]|.//li[not(.//p)]|.//h1|.//h2|.//h3"


def clean(text: str) -> str:
    text = text.replace("\u00ad", "").replace("¶", "")
    for curly, plain in (
        ("“", '"'),
        ("”", '"'),
        ("‘", "'"),
        ("’", "'"),
        ("–", "-"),
        ("—", "-"),
        ("\u2010", "-"),
        ("\u2011", "-"),
        ("…", "..."),
        ("\u00a0", " "),
        ("†", ""),
        ("→", "->"),
    ):
        text = text.replace(curly, plain)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s+([.,;:!?])(\s|$)", r"\1\2", text)


def good(paragraph: str) -> bool:
    """Documentation-like English: a sentence, mostly letters, common words, plain ASCII."""
    if not 100 <= len(paragraph) <= 2400 or paragraph[-1] not in ".:!?)\"'":
        return False
    if not paragraph[0].isalpha() and paragraph[0] not in "\"'(":
        return False
    plain = sum(c.isascii() and (c.isalpha() or c == " ") for c in paragraph)
    if plain < 0.89 * len(paragraph) or sum(not c.isascii() for c in paragraph) > 4:
        return False
    words = paragraph.lower().split()
    return (
        sum(w in STOP_WORDS for w in words) >= max(4, 0.18 * len(words))
        and len(max(words, key=len)) <= 40
    )


def html_paragraphs(data: bytes) -> list[tuple[bool, str]]:
    try:
        tree = lxml.html.document_fromstring(data)
    except Exception:  # a broken page is simply not used
        return []
    for node in tree.xpath(
        "//script|//style|//pre|//table|//nav|//header|//footer"
        "|//div[@class='navheader' or @class='navfooter' or @class='toc']"
        "|//div[@class='sphinxsidebar' or @class='related']"
    ):
        if node.getparent() is not None:
            node.drop_tree()
    out: list[tuple[bool, str]] = []
    for node in tree.xpath(PARAGRAPH_PATH):
        text = node.text_content()
        out.append((node.tag in ("h1", "h2", "h3"), clean(text)))
    return out


def pod_paragraphs(text: str) -> list[tuple[bool, str]]:
    out: list[tuple[bool, str]] = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith(("=head1 ", "=head2 ")):
            heading = re.sub(r"[A-Z]<+\s*([^<>]*?)\s*>+", r"\1", block[7:])
            out.append((True, clean(heading).capitalize()))
        elif block and block[0] not in "= \t":
            for _ in range(3):
                block = re.sub(r"L<([^<>|]*)\|[^<>]*>", r"\1", block)
                block = re.sub(r"[A-Z]<<+ (.*?) >>+", r"\1", block)
                block = re.sub(r"E<gt>", ">", re.sub(r"E<lt>", "<", block))
                block = re.sub(r"[BCFILSXZ]<([^<>]*)>", r"\1", block)
            out.append((False, clean(block)))
    return out


def read_paragraphs(root: Path, path: Path) -> list[tuple[bool, str]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    name = str(path)
    if "/man/man" in name:
        if data.startswith(b".so "):
            return []
        mandoc = root / "mandoc/usr/bin/mandoc"
        data = subprocess.run(
            [mandoc, "-T", "html"],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        ).stdout
    elif name.endswith(".pod"):
        return pod_paragraphs(data.decode("utf-8", "replace"))
    return html_paragraphs(data)


def documents(paragraphs: list[tuple[bool, str]], seen: set[bytes]) -> Iterator[str]:
    """Joins good paragraphs under their headings; each document is at most 6,000 characters."""
    parts: list[str] = []
    heading = ""
    size = 0
    for is_heading, text in paragraphs:
        if is_heading:
            text = re.sub(r"^[\dA-Z]?[\d.]+\s+", "", text).strip("#. ")
            heading = text if 4 <= len(text) <= 80 and text.isascii() else ""
            continue
        if not good(text):
            continue
        digest = hashlib.blake2b(re.sub(r"\W+", "", text.lower()).encode(), digest_size=8).digest()
        if digest in seen:
            continue
        seen.add(digest)
        if heading:
            parts.append("# " + heading)
            heading = ""
        parts.append(text)
        size += len(text)
        if size > 6000:
            yield "\n\n".join(parts)
            parts, size = [], 0
    if size > 300:
        yield "\n\n".join(parts)


def job(args: tuple[Path, Path]) -> list[tuple[bool, str]]:
    return read_paragraphs(*args)


def fetch(root: Path) -> None:
    (root / "debs").mkdir(parents=True, exist_ok=True)
    for package in [s.package for s in SOURCES] + ["mandoc"]:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=root / "debs", check=True)
        deb = next((root / "debs").glob(package + "_*.deb"))
        subprocess.run(["dpkg", "-x", deb, root / "x" / package], check=True)


def build(root: Path, out: Path) -> None:
    seen: set[bytes] = set()
    number = 0
    with multiprocessing.Pool(2) as pool, out.open("w") as sink:
        for source in SOURCES:
            base = root / "x" / source.package
            files = sorted(
                p
                for p in base.rglob("*")
                if p.is_file()
                and re.search(source.include, str(p))
                and not BAD_NAMES.search(str(p))
                and re.search(r"\.(html?(\.en)?|pod|[1-8](\w*)?)(\.gz)?$", p.name)
            )
            characters = held = 0
            for paragraphs in pool.imap(job, [(root / "x", p) for p in files], chunksize=8):
                for text in documents(paragraphs, seen):
                    number += 1
                    held_out = number % 60 == 0
                    held += held_out
                    characters += len(text)
                    sink.write(
                        json.dumps({"text": text, "source": source.package, "held_out": held_out})
                        + "\n"
                    )
                if characters > source.cap:
                    break
            print(
                f"{source.package}: {len(files)} files, {characters} characters, {held} held out",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fetch", "build"):
        sub = commands.add_parser(name)
        sub.add_argument("root", type=Path)
        if name == "build":
            sub.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.command == "fetch":
        fetch(args.root)
    else:
        build(args.root, args.out)


if __name__ == "__main__":
    main()
