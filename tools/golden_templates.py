#!/usr/bin/env python3
"""Renders pieces of templates with Python's Jinja, as values to compare ours with.

    pip install jinja2
    python tools/golden_templates.py > crates/model/tests/chat_snippets.json

The environment is set up as transformers 5 does it for chat templates: blocks are trimmed, `tojson` is plain JSON
that leaves characters outside ASCII alone, loops can be left, `generation` blocks do nothing. All pieces are our
own; each uses what some published template uses. A piece that fails is written as null.
"""

import json
import sys

import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """Blocks that training looks at."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("content"), [], [], body).set_lineno(line)

    def content(self, caller):
        return caller()


CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "  What's 世界?\n"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nThe world.", "reasoning": None},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find", "arguments": {"what": "é", "n": [1, 2.5], "ok": True}}}]},
        {"role": "tool", "content": '{"found": null}', "name": "find"},
    ],
    "tools": [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {"what": {"type": "string"}, "items": {"type": "array", "items": {"type": "integer"}}}}}}],
    "yes": True, "nothing": None, "one": 1, "half": 0.5, "word": "héllo", "list": [1, "a", None, True, {"x": "y's"}],
    "object": {"b": 1, "a": [1, 2], "items": "i", "keys": "k"}, "empty": [],
}

LINES = r"""
{{ yes }}|{{ nothing }}|{{ half }}|{{ list }}|{{ object }}|{{ empty }}|{{ {} }}|{{ (1, 'a') }}
{{ yes ~ nothing ~ list ~ half }}|{{ yes|string }}|{{ list|string }}|{{ ["a'b", 'a"b', 'é\n'] }}
{{ list|join(',') }}|{{ ', '.join(['a', 'b']) }}|{{ [yes, nothing]|join('-') }}
{% for k, v in object.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in object|items %}{{ k }};{% endfor %}{% for k in object %}{{ k }}{% endfor %}
{{ object.keys()|list }}{{ object.values()|list }}{{ object.get('b') }}{{ object.get('z') }}{{ object.get('z', 3) }}{{ object['items'] }}
{{ tools[0].function.parameters.properties.items()|list|length }}
{{ word is iterable }}{{ word is sequence }}{{ word is mapping }}{{ word is string }}
{{ object is iterable }}{{ object is sequence }}{{ object is mapping }}{{ object is string }}
{{ list is iterable }}{{ list is sequence }}{{ list is mapping }}{{ (1,) is sequence }}
{{ nothing is iterable }}{{ nothing is sequence }}{{ nothing is mapping }}{{ nothing is none }}
{{ absent is iterable }}{{ absent is sequence }}{{ absent is mapping }}{{ absent is none }}{{ absent is defined }}
{{ one is iterable }}{{ one is sequence }}{{ one is number }}{{ yes is boolean }}{{ yes is true }}{{ one is true }}{{ nothing is false }}{{ half is float }}
{{ absent }}|{{ absent|length }}|{{ absent|trim }}|{{ absent|default('d') }}|{{ nothing|default('d') }}|{{ nothing|default('d', true) }}
{{ absent.x }}
{{ messages[9] }}|{{ messages[0].absent is defined }}|{{ 'role' in messages[0] }}|{{ 'tool_calls' not in messages[0] }}
{{ messages[9].role }}
{{ messages[-1].role }}{{ messages[::-1][0].role }}{{ messages[1:]|length }}{{ messages[:-1]|length }}{{ messages[1:3]|length }}{{ messages.0.role }}
{{ word[1:3] }}{{ word[0] }}{{ word[-1] }}{{ word[::-1] }}{{ empty[0] is defined }}
{{ 'x' in absent }}{{ 'l' in word }}{{ 'z' not in word }}
{{ 'x' in nothing }}
{{ 'a' + nothing }}
{{ 'a' + one }}
{{ 'a' 'b' }}{{ "\x41\u00e9\t\'" }}{{ 'a' * 3 }}{{ [1] + [2] }}
{{ 7 // 2 }}{{ 7 / 2 }}{{ 4 / 2 }}{{ 2 ** 3 }}{{ -7 % 3 }}{{ one + 1 }}{{ messages|length - 1 }}
{{ "{} is {}".format('a', 1) }}{{ "%s-%s"|format('a', 2) }}
{{ word.upper() }}{{ word.title() }}{{ word.capitalize() }}{{ 'AB'.lower() }}
{{ 'a,b,c'.split(',', 1) }}{{ ' a b  c '.split() }}{{ 'a\nb'.splitlines() }}{{ 'a.b.c'.rsplit('.', 1) }}{{ 'a.b'.rsplit('.') }}
{{ 'a b'.rsplit() }}
{{ 'abc'.partition('b') }}{{ 'abc'.partition('x') }}{{ 'abcb'.rpartition('b') }}{{ 'abc'.rpartition('x') }}
{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removeprefix('x') }}{{ 'abc'.removesuffix('x') }}
{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxaxx'.lstrip('x') }}|{{ '\n\na \n'.rstrip('\n') }}|{{ 'abcba'.strip('ab') }}
{{ 'abc'.startswith('a') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('a') }}{{ 'aaa'.replace('a', 'b', 1) }}{{ 'abab'.find('b') }}{{ 'abab'.count('a') }}{{ '12'.isdigit() }}
{{ messages[2].content.split('</think>')[-1].lstrip('\n') }}|{{ messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}
{{ word.absent() }}
{{ absent.strip() }}
{{ absent() }}
{{ word|absent }}
{{ word is absent }}
{% set ns = namespace(n=0, found=false) %}{% for m in messages if m.role == 'assistant' %}{% set ns.n = ns.n + 1 %}{% set ns.found = true %}{% endfor %}{{ ns.n }}{{ ns.found }}
{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if yes %}{% set x = 3 %}{% endif %}{{ x }}
{% macro a(x, y=2) %}{{ b(x) }}{{ y }}{{ g }}{% endmacro %}{% macro b(x) %}[{{ x }}]{% endmacro %}{% set g = 'G' %}{{ a(1) }}{{ a(1, y=3) }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{% endcall %}
{% filter upper %}abc{% endfilter %}{% set q %}abc{% endset %}{{ q }}{% raw %}{{ x }}{% endraw %}{% with z = 1 %}{{ z }}{% endwith %}
{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% if i == 3 %}{% break %}{% endif %}{% endfor %}
{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.length }}{% endfor %}{% for i in empty %}{% else %}none{% endfor %}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|map(attribute='role')|join(',') }}{{ messages|rejectattr('role', 'in', ['user', 'tool'])|list|length }}{{ messages|selectattr('tool_calls', 'defined')|list|length }}
{{ [3, 1, 2]|sort }}{{ [3, 1]|max }}{{ [1, 1]|unique|list }}{{ [1, 2]|first }}{{ [1, 2]|last }}{{ 'abc'|reverse }}{{ [1, none]|reject('none')|list }}{{ ['x']|map('upper')|list }}{{ object|dictsort|first }}
{{ 'a\nb'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'aB c'|capitalize }}|{{ 'a b'|title }}|{{ '3'|int + 1 }}|{{ 3.7|round }}|{{ ' x '|trim }}|{{ 'xax'|trim('x') }}|{{ 'a b'|replace(' ', '_') }}
{{ 'a' if nothing }}|{{ 'a' if yes else 'b' }}|{{ nothing or 'x' }}|{{ '' or absent or 'y' }}|{{ not absent }}|{{ absent == none }}|{{ not tools is defined }}
{{ '<b>'|escape }}{{ '<b>'|safe }}{{ "<a href='x'>" }}
{{ True }}{{ False }}{{ None }}{{ true and not false }}{{ 1 < 2 < 3 }}{{ 1 == 1.0 }}
{{ range(3)|list }}{% for i in range(1, 6, 2) %}{{ i }}{% endfor %}{% set a, b = 1, 2 %}{{ a }}{{ b }}{{ dict(a=1) }}
{% set j = joiner(', ') %}{{ j() }}a{{ j() }}b
{{ list|tojson }}{{ word|tojson }}{{ tools|tojson }}
{{ messages|tojson }}
{{ list|tojson(ensure_ascii=False) }}{{ word|tojson(ensure_ascii=True) }}{{ '😀'|tojson(ensure_ascii=True) }}{{ '😀\x7f'|tojson }}
{{ tools|tojson(indent=4) }}
{{ object|tojson(indent='\t', separators=(',', ' : ')) }}{{ object|tojson(separators=(',', ':')) }}{{ object|tojson(sort_keys=true) }}{{ list|tojson(indent=none) }}
{{ [1.0, 1e16, 1e22, 1.5e-7, 0.1, 123456789.125, -0.0, 1e15, 0.0001, 0.00001, 12345678901]|tojson }}
{{ (1, 2)|tojson }}{{ {1: 2, true: none}|tojson }}{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ [[]]|tojson(indent=0) }}{{ 5|tojson }}{{ yes|tojson }}{{ nothing|tojson }}
{{ "\"\\\n\r\t\b\f\u0001/</script>'&"|tojson }}
{{ absent|tojson }}
{{ list|tojson(absent=1) }}
{{ 'a' + object.b|tojson + 'c' }}{{ 'a' ~ 'b'|upper }}{{ -3|abs }}
{% generation %}x{% set q = 1 %}{% endgeneration %}{{ q is defined }}
a {%- generation -%} x {%- endgeneration -%} y
{% for i in [1, 2] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}
{#- note -#} a {# note #} b {%- if yes -%} c {%- endif %} d {%+ if yes %}e{% endif +%} f
{% if %}
{{ 'a }}
{% for x in list %}
"""

BLOCKS = [
    "a\n   {% if yes %}   \n x\n   {% endif %}\nb\n",
    "a\n\n",
    "{% for x in [1, 2] %}\n  {{ x }}\n{% endfor %}\n  end",
    "{%- set x = 1 -%}\n\n y\n  {# note #}\nz",
    "x\n  {%- if yes %}\n  y\n  {%- endif %}\nz",
    "{% set x %}\n a\n{% endset %}{{ x }}",
    "a\n  {% generation %}\nb\n  {% endgeneration %}\nc",
    """{%- macro text(content) -%}
    {%- if content is string -%}
        {{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content -%}
            {{- part.text }}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if tools %}
<tools>
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
</tools>
{% endif %}
{%- for message in messages %}
    {%- set content = text(message.content) | trim %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
<{{ message.role }}>
{{ content }}
    {%- for call in message.tool_calls or [] %}
        {%- set call = call.function %}
<call {{ call.name }}>
        {%- for key, value in call.arguments.items() %}
<arg {{ key }}>{{ value if value is string else value | tojson }}</arg>
        {%- endfor %}
</call>
    {%- endfor %}
{% endfor -%}
<assistant>
""",
]


def main():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment.filters["tojson"] = tojson
    cases = []
    for template in LINES.strip("\n").split("\n") + BLOCKS:
        try:
            cases.append([template, environment.from_string(template).render(CONTEXT)])
        except (jinja2.TemplateError, TypeError):
            cases.append([template, None])
    made = {"made_by": f"tools/golden_templates.py with Jinja {jinja2.__version__}", "context": CONTEXT, "cases": cases}
    json.dump(made, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
