"""The docs as a site: no dead link, every page in a menu, a reference that holds every component and operator."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from framework import nn
from framework.errors import DataError
from framework.ops.registry import OPS
from suites.engine import cli
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.registry import REGISTRY, load_suites, suite_names
from tools.docs_site import stage as staging
from tools.docs_site.reference import plain, reference_pages

ROOT = Path(__file__).resolve().parents[2]
MENTION = re.compile(r"\bdocs/[\w/]+\.(?:md|jpg|svg)\b")
SOURCES = ("framework", "suites", "tools", "scripts", "benchmarks", "examples", "configs", "deploy", "tests")


@pytest.fixture(scope="module")
def pages():
    return reference_pages()


@pytest.fixture(scope="module")
def site(tmp_path_factory, pages):
    """The folder of the built pages; building fails at a dead link, a dead anchor, and a page without a menu."""
    pytest.importorskip("mkdocs", reason="the package mkdocs is not installed")
    from tools.docs_site.__main__ import build

    folder = tmp_path_factory.mktemp("site").resolve()
    status, said = build(staging.stage(folder, pages, ROOT))
    assert status == 0, said
    return folder / "html"


def test_every_page_is_built_and_reached_from_the_first(site):
    reached, waiting = set(), [site / "index.html"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r'href="([^"#:]+\.html)[#"]', page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target).resolve() for target in targets]
    assert all(page.is_file() for page in reached)
    assert {page for page in site.rglob("*.html") if page.name != "404.html"} <= reached
    wanted = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix("") for page in reached}
    assert {path.with_name("index") if path.name == "README" else path for path in wanted} <= built


def test_pages_ask_nothing_of_the_network(site):
    for page in site.rglob("*.html"):
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()), page


MEASURE = """<iframe id="f" src="PAGE" style="width:WIDTHpx;height:1800px;border:0"></iframe><p id="out"></p><script>
f.onload = () => setTimeout(() => {
  const page = f.contentDocument, root = page.documentElement;
  const broken = [...page.images].filter(i => !i.naturalWidth).length;
  out.textContent = JSON.stringify({width: f.contentWindow.innerWidth, wide: root.scrollWidth, broken: broken,
    title: page.querySelector("h1").textContent, tabs: page.querySelectorAll(".md-tabs__link, .md-nav__link").length});
}, 1500);
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize(
    "page", ["index", "tutorial/photos", "howto/ctr", "results/speed", "reference/config/detection", "reference/layers"]
)
def test_a_page_in_a_real_browser(site, tmp_path, page, width):
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        pytest.skip("the package chromium is not installed")
    measure = tmp_path / "measure.html"
    measure.write_text(MEASURE.replace("PAGE", (site / f"{page}.html").as_uri()).replace("WIDTH", str(width)))
    words = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--allow-file-access-from-files", "--enable-logging=stderr", "--window-size=1800,2000",
             "--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'b'}", "--dump-dom"]  # fmt: skip
    done = subprocess.run([*words, measure.as_uri()], capture_output=True, text=True, timeout=90)
    assert "CONSOLE" not in done.stderr, done.stderr
    seen = json.loads(html.unescape(re.search(r'<p id="out">([^<]*)', done.stdout)[1]))
    assert seen["wide"] <= seen["width"] == width and not seen["broken"] and seen["title"] and seen["tabs"] >= 5


@pytest.mark.slow
def test_the_search_works_on_pages_opened_from_the_disk(site, tmp_path):
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        pytest.skip("the package chromium is not installed")
    words = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--virtual-time-budget=30000", f"--user-data-dir={tmp_path / 'b'}", "--dump-dom"]  # fmt: skip
    page = (site / "index.html").as_uri()
    found = {}
    for query in ("focal", "qqqzzz"):
        done = subprocess.run([*words, f"{page}?q={query}"], capture_output=True, text=True, timeout=90)
        found[query] = re.search(r'md-search-result__meta">([^<]*)', done.stdout)[1].strip()
    assert re.fullmatch(r"[1-9]\d* matching documents", found["focal"]) and found["qqqzzz"] == "No matching documents"


def test_the_reference_has_every_component_under_its_suite(pages):
    load_suites(suite_names())
    for suite in [None, *suite_names()]:
        own, text = REGISTRY.owned_by(suite), pages[f"components/{suite or 'shared'}.md"]
        for role in own.roles():
            for name in own.names(role) if role != "config" else ():
                target = own.get(role, name)
                assert f"### {name}\n\n`{target.__module__}.{target.__qualname__}`" in text, (suite, role, name)


def test_the_reference_has_every_operator_layer_command_and_config(pages):
    written = "".join(path.read_text() for path in (ROOT / "docs/reference/operators").glob("*.md"))
    assert [name for name in OPS if f"\n## {name}\n" not in written] == []
    assert [
        name for name in nn.__all__ if isinstance(getattr(nn, name), type) and f"## {name}\n" not in pages["layers.md"]
    ] == []
    assert [name for name in cli.commands() if f"## paddock {name}\n" not in pages["commands.md"]] == []
    assert "### paddock data check\n" in pages["commands.md"]
    assert [name for name in shipped_configs() if f"`{name}`" not in pages["configs.md"]] == []


def test_config_keys_have_their_whole_path_type_default_and_meaning(pages):
    rows = {line.split("`")[1]: line for line in pages["config/detection.md"].splitlines() if line.startswith("| `")}
    assert rows["runtime.checkpoint.every"].startswith("| `runtime.checkpoint.every` | int | `500` | Steps between two")
    assert "`AdamW`" in rows["optimizer"] and "needed" in rows["optimizer"]


def test_text_of_a_docstring_is_no_markup():
    assert plain("x * y < [N, C] and `a * [b]`") == r"x \* y \< \[N, C\] and `a * [b]`"


@pytest.mark.parametrize("folder", SOURCES)
def test_pages_that_sources_mention_are_there(folder):
    dead = []
    for path in (ROOT / folder).rglob("*"):
        if (
            path.suffix in (".py", ".yml", ".md", "")
            and path.is_file()
            and "__pycache__" not in path.parts
            and path != Path(__file__)
        ):
            text = path.read_text(encoding="utf-8", errors="replace")
            dead += [
                f"{path.relative_to(ROOT)}: {name}" for name in MENTION.findall(text) if not (ROOT / name).exists()
            ]
    assert dead == []


@pytest.fixture
def small(tmp_path):
    """A repository with two pages."""
    (tmp_path / "docs" / "part").mkdir(parents=True)
    (tmp_path / "docs" / "index.md").write_text("# First\n\n[next](part/a.md)\n")
    (tmp_path / "docs" / "part" / "a.md").write_text(
        "# A\n\n[code](../../tool.py) [`tool.py`](../../tool.py) [back](../index.md)\n"
    )
    (tmp_path / "tool.py").write_text("")
    (tmp_path / "mkdocs.yml").write_text("site_name: Small\nsite_dir: html\nnav: [index.md, {Part: part/}]\n")
    return tmp_path


def test_a_link_out_of_the_docs_becomes_the_name_of_its_target(small, tmp_path):
    staging.stage(tmp_path / "out", {"made.md": "# Made\n"}, small)
    text = (tmp_path / "out/docs/part/a.md").read_text()
    assert text == "# A\n\ncode (`tool.py`) `tool.py` [back](../index.md)\n"
    assert (tmp_path / "out/docs/reference/made.md").is_file()
    assert "part/a.md" in (tmp_path / "out/mkdocs.yml").read_text()


def test_a_dead_link_fails(small, tmp_path):
    (small / "tool.py").unlink()
    with pytest.raises(DataError, match=r"docs/part/a\.md: links to \.\./\.\./tool\.py, which is not there"):
        staging.stage(tmp_path / "out", {}, small)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[gone](part/b.md)", "part/b.md"), ("[gone](part/a.md#there)", "#there")],
)
def test_a_dead_link_between_pages_fails_the_build(small, tmp_path, text, said):
    pytest.importorskip("mkdocs", reason="the package mkdocs is not installed")
    from tools.docs_site.__main__ import build

    (small / "docs" / "index.md").write_text(f"# First\n\n{text}\n")
    (small / "mkdocs.yml").write_text(
        "site_name: Small\nsite_dir: html\nnav: [index.md, {Part: part/}]\nvalidation: {links: {anchors: warn}}\n"
    )
    status, found = build(staging.stage(tmp_path / "out", {}, small))
    assert status != 0 and said in found


def test_a_page_without_a_menu_fails_the_build(small, tmp_path):
    pytest.importorskip("mkdocs", reason="the package mkdocs is not installed")
    from tools.docs_site.__main__ import build

    (small / "docs" / "lost.md").write_text("# Lost\n")
    (small / "mkdocs.yml").write_text(
        "site_name: Small\nsite_dir: html\nnav: [index.md, {Part: part/}]\nvalidation: {nav: {omitted_files: warn}}\n"
    )
    status, found = build(staging.stage(tmp_path / "out", {}, small))
    assert status != 0 and "lost.md" in found
