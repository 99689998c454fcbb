"""Word files from the XML of their bodies."""

import io
import zipfile

NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
)
STYLES = """
<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/></w:style>
"""
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"


def docx(body, *, numbering="", styles=STYLES, **parts):
    """Return a Word file; `parts` are further parts of the document by kind, such as footnotes."""
    parts = {
        kind: f"<w:{kind} {NAMESPACES}>{xml}</w:{kind}>"
        for kind, xml in {"numbering": numbering, "styles": styles, **parts}.items()
        if xml
    }
    own = "".join(
        f'<Relationship Id="r{kind}" Type="{RELATIONS}{kind}" Target="{kind}.xml"/>'
        for kind in parts
    )
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    main = f'<Relationship Id="r" Type="{RELATIONS}officeDocument" Target="word/document.xml"/>'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("_rels/.rels", f'<Relationships xmlns="{package}">{main}</Relationships>')
        packed.writestr(
            "word/_rels/document.xml.rels",
            f'<Relationships xmlns="{package}">{own}</Relationships>',
        )
        document = f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
        packed.writestr("word/document.xml", document)
        for kind, xml in parts.items():
            packed.writestr(f"word/{kind}.xml", xml)
    return buffer.getvalue()


def paragraph(*runs, style="", num=None, level=0, mark=""):
    """Return a paragraph of runs or texts, in a list if `num` names one."""
    own = f'<w:pStyle w:val="{style}"/>' if style else ""
    if num is not None:
        own += f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{num}"/></w:numPr>'
    own += f"<w:rPr>{mark}</w:rPr>" if mark else ""
    inner = "".join(one if one.startswith("<") else run(one) for one in runs)
    return f"<w:p><w:pPr>{own}</w:pPr>{inner}</w:p>"


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def numbered(levels, *, overrides="", more="", number=1):
    """Return a list whose levels have a format, a text and further elements."""
    inner = "".join(
        f'<w:lvl w:ilvl="{i}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{own}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for i, (form, text, own) in enumerate(levels)
    )
    return (
        f'<w:abstractNum w:abstractNumId="{number}">{inner}</w:abstractNum>'
        f'<w:num w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>'
        f'<w:num w:numId="{number + 10}"><w:abstractNumId w:val="{number}"/>{overrides}</w:num>{more}'
    )
