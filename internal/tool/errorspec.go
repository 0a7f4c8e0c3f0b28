package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// maxErrorspec is the largest errors.md, in bytes.
const maxErrorspec = 256 << 10

// errorColumns are the columns of the table of an error in errors.md, in the order in which --fix writes them.
var errorColumns = []string{"class", "http status", "retryable", "meaning", "fix"}

// errorspec is errors.md: Markdown with one section per error. A section has a heading of level 2 with the name of the
// error, a table with one row, and free text.
type errorspec struct {
	raw      []byte
	sections []errorSection
}

// errorSection is the section of one error.
type errorSection struct {
	spec     ErrorSpec
	retries  string // the column retryable: yes, no, or "" if it is empty
	at       place  // of the heading
	from, to int    // bytes of the table with its line breaks; equal where one is to be inserted
	problems []Problem
}

// parseErrorspec reads an errors.md. Problems are those of its sections.
func parseErrorspec(raw []byte) *errorspec {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	doc := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(raw))
	e := &errorspec{raw: raw}
	table := false // the section has its table
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				e.begin(n)
				table = false
			}
		case *extast.Table:
			if len(e.sections) > 0 && !table {
				e.table(n)
				table = true
			}
		}
	}
	for i := range e.sections {
		e.sections[i].check()
	}
	return e
}

func (e *errorspec) begin(n *ast.Heading) {
	s := errorSection{spec: ErrorSpec{Name: strings.Trim(e.text(n), "`")}}
	if lines := n.Lines(); lines.Len() > 0 {
		segment := lines.At(lines.Len() - 1)
		s.at = e.place(lineStart(e.raw, segment.Start))
		s.from = lineEnd(e.raw, segment.Stop)
	} else { // an empty heading has no position
		s.at = place{1, 1}
		s.problem("a section has no name", "write ## and the name of an error")
	}
	s.to = s.from
	e.sections = append(e.sections, s)
}

// table reads the table of the section that was begun last.
func (e *errorspec) table(n *extast.Table) {
	s := &e.sections[len(e.sections)-1]
	rows := e.rows(n)
	first, last := e.extent(n)
	s.from, s.to = lineStart(e.raw, first), lineEnd(e.raw, last)
	if len(rows) != 2 {
		s.problem("the table of an error has one row", "give each error a section with a table of its own")
		return
	}
	for i, name := range rows[0] {
		name = strings.ToLower(name)
		if !slices.Contains(errorColumns, name) {
			s.problem(fmt.Sprintf("unknown column %q", name), "the columns are "+strings.Join(errorColumns, ", "))
			continue
		}
		s.set(name, rows[1][min(i, len(rows[1])-1)])
	}
}

// set takes the value of a column.
func (s *errorSection) set(column, value string) {
	switch column {
	case "class":
		s.spec.Class = envelope.ErrorClass(strings.TrimSuffix(strings.Trim(value, "`"), "-*"))
	case "http status":
		if value == "" {
			return
		}
		status, err := strconv.Atoi(value)
		if err != nil || status < 400 || status > 599 {
			s.problem(fmt.Sprintf("%q is not the HTTP status of an error", value),
				"write a number from 400 to 599, or leave it empty")
		}
		s.spec.HTTPStatus = status
	case "retryable":
		s.retries = strings.ToLower(value)
	case "meaning":
		s.spec.Message = value
	case "fix":
		s.spec.Fix = value
	}
}

// check reports what is wrong with a section whose table was read.
func (s *errorSection) check() {
	e := s.spec
	switch {
	case len(s.problems) > 0:
	case !errorPattern.MatchString(e.Name):
		s.problem(fmt.Sprintf("%q is not an error name", e.Name),
			"a section of level 2 is an error: lower-case letters, digits and _")
	case s.from == s.to:
		s.problem(e.Name+" has no table", "| Class | HTTP status | Retryable | Meaning | Fix |")
	case !slices.Contains(envelope.Classes(), e.Class):
		s.problem(fmt.Sprintf("%q is not a class of the taxonomy", e.Class),
			"one of R-UPSTREAM, I-REQ, and so on, see docs/errors.md")
	case e.Message == "" || e.Fix == "":
		s.problem(e.Name+" needs a meaning and a fix", "fill in both columns")
	case s.retries != "" && s.retries != e.retryable():
		s.problem(fmt.Sprintf("%s is retryable: %q, and its class says %s", e.Name, s.retries, e.retryable()),
			"the class decides; correct one of the two")
	}
}

func (s *errorSection) problem(message, hint string) {
	s.problems = append(s.problems, Problem{Line: s.at.line, Column: s.at.column, Message: message, Hint: hint})
}

// mend adds a problem that Fix mends: the table of the section becomes that of want.
func (s *errorSection) mend(message string, want ErrorSpec, before string) {
	s.problem(message, "toolbus tools lint --fix writes the tables of errors.md from the manifest")
	s.problems[len(s.problems)-1].edit = &edit{from: s.from, to: s.to, text: before + want.Table()}
}

// Table returns the table of the error in errors.md, as Markdown.
func (e ErrorSpec) Table() string {
	status := ""
	if e.HTTPStatus > 0 {
		status = strconv.Itoa(e.HTTPStatus)
	}
	cell := func(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }
	return "| Class | HTTP status | Retryable | Meaning | Fix |\n|---|---|---|---|---|\n" +
		fmt.Sprintf("| %s | %s | %s | %s | %s |\n", e.Class, status, e.retryable(), cell(e.Message), cell(e.Fix))
}

// retryable returns yes or no, as the class of the error says.
func (e ErrorSpec) retryable() string {
	if envelope.ToolErrorCode(e.Class, e.Name).Retryable() {
		return "yes"
	}
	return "no"
}

// rows returns the texts of the cells, the header first.
func (e *errorspec) rows(table ast.Node) (rows [][]string) {
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, e.text(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// text returns the source of a heading or a cell as one line. Markup stays as it is; only a vertical bar is escaped in
// a table.
func (e *errorspec) text(n ast.Node) string {
	var b strings.Builder
	for _, segment := range n.Lines().Sliced(0, n.Lines().Len()) {
		b.Write(segment.Value(e.raw))
		b.WriteByte(' ')
	}
	return oneLine(strings.ReplaceAll(b.String(), `\|`, "|"))
}

// extent returns the first and the last byte of a table's text.
func (e *errorspec) extent(table ast.Node) (first, last int) {
	first = len(e.raw)
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			for _, segment := range cell.Lines().Sliced(0, cell.Lines().Len()) {
				first, last = min(first, segment.Start), max(last, segment.Stop)
			}
		}
	}
	return min(first, last), last
}

func (e *errorspec) place(offset int) place {
	before := e.raw[:offset]
	return place{bytes.Count(before, []byte("\n")) + 1, offset - bytes.LastIndexByte(before, '\n')}
}

// lineStart returns the offset at which the line of an offset begins.
func lineStart(raw []byte, offset int) int { return bytes.LastIndexByte(raw[:offset], '\n') + 1 }

// lineEnd returns the offset behind the line of an offset and its line break.
func lineEnd(raw []byte, offset int) int {
	if n := bytes.IndexByte(raw[offset:], '\n'); n >= 0 {
		return offset + n + 1
	}
	return len(raw)
}

// errorspec reads the errors.md of the tool. If the manifest has no errors, those of the tables take their place. If it
// has, a difference is a fault.
func (l *toolLoader) errorspec(name string, declared *[]ErrorSpec) {
	if name == "" || l.bad["/errorspec"] {
		return
	}
	raw, err := readFile(l.files, path.Clean(name), maxErrorspec)
	if err != nil {
		l.fail("/errorspec", reason(err), "put the file there, it may be empty, or leave the field out")
		return
	}
	spec, severity := parseErrorspec(raw), Refused
	_, inManifest := l.keys["/errors"]
	if inManifest {
		severity = Fault
		spec.compare(*declared)
	}
	for _, s := range spec.sections {
		for _, p := range s.problems {
			p.File, p.Severity = path.Join(l.folder, name), severity
			l.problems = append(l.problems, p)
		}
		if !inManifest {
			*declared = append(*declared, s.spec)
		}
	}
	l.spec = spec
	if !inManifest {
		l.sums[path.Clean(name)] = spec.sum()
	}
}

// sum returns the SHA-256 of what the tables declare. Free text is no part of the build digest.
func (e *errorspec) sum() string {
	sum := sha256.New()
	for _, s := range e.sections {
		fmt.Fprintf(sum, "%q %q %d %q %q\n", s.spec.Name, s.spec.Class, s.spec.HTTPStatus, s.spec.Message, s.spec.Fix)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// compare reports where the sections differ from the errors of the manifest.
func (e *errorspec) compare(declared []ErrorSpec) {
	for i := range e.sections {
		s := &e.sections[i]
		at := slices.IndexFunc(declared, func(d ErrorSpec) bool { return d.Name == s.spec.Name })
		switch {
		case at < 0 && errorPattern.MatchString(s.spec.Name):
			s.problem(s.spec.Name+" is not an error of the manifest", "declare it in the manifest, or remove the section")
		case at >= 0 && s.from == s.to:
			s.problems = nil
			s.mend(s.spec.Name+" has no table", declared[at], "\n")
		case at >= 0 && !s.spec.equal(declared[at]):
			s.problems = nil
			s.mend("the table of "+s.spec.Name+" differs from the manifest", declared[at], "")
		}
	}
	for _, d := range declared {
		if !slices.ContainsFunc(e.sections, func(s errorSection) bool { return s.spec.Name == d.Name }) {
			s := errorSection{spec: d, at: place{1, 1}, from: len(e.raw), to: len(e.raw)}
			s.mend(d.Name+" has no section", d, "\n## "+d.Name+"\n\n")
			e.sections = append(e.sections, s)
		}
	}
}

// equal reports whether two declarations of an error say the same. A table has one line for each text.
func (e ErrorSpec) equal(other ErrorSpec) bool {
	e.Message, e.Fix = oneLine(e.Message), oneLine(e.Fix)
	other.Message, other.Fix = oneLine(other.Message), oneLine(other.Fix)
	return e == other
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
