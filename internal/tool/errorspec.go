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
	declared bool   // it has a table
	fixed    bool   // Fix leaves it alone
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
				table = e.table(n)
			}
		}
	}
	for i := range e.sections {
		e.sections[i].check()
	}
	return e
}

// begin adds the section of a heading. A table can be inserted below a heading that begins with ##.
func (e *errorspec) begin(n *ast.Heading) {
	s := errorSection{spec: ErrorSpec{Name: strings.Trim(e.text(n), "`")}, at: place{1, 1}}
	defer func() { e.sections = append(e.sections, s) }()
	if n.Lines().Len() == 0 { // an empty heading has no position
		s.problem("a section has no name", "write ## and the name of an error")
		return
	}
	from := lineStart(e.raw, n.Lines().At(0).Start)
	s.at, s.from = e.place(from), lineEnd(e.raw, from)
	s.to = s.from
	if s.fixed = !bytes.HasPrefix(bytes.TrimLeft(e.raw[from:], " "), []byte("##")); s.fixed {
		s.problem(s.spec.Name+" is not written as a heading of level 2", "write it as ## "+s.spec.Name)
	}
}

// table reads the first table of the section that was begun last, and reports whether it has a column class. Any other
// table is free text.
func (e *errorspec) table(n *extast.Table) bool {
	s, rows := &e.sections[len(e.sections)-1], e.rows(n)
	at := slices.IndexFunc(rows[0], func(name string) bool { return strings.EqualFold(name, "class") })
	if at < 0 {
		return false
	}
	s.declared = true
	if len(rows) != 2 {
		s.fixed = true
		s.problem("the table of an error has one row", "give each error a section with a table of its own")
		return true
	}
	s.from, s.to = e.lines(n)
	for i, name := range rows[0] {
		name = strings.ToLower(name)
		if !slices.Contains(errorColumns, name) {
			s.fixed = true
			s.problem(fmt.Sprintf("unknown column %q", name), "the columns are "+strings.Join(errorColumns, ", "))
			continue
		}
		s.set(name, rows[1][min(i, len(rows[1])-1)])
	}
	return true
}

// lines returns the bytes of a table of one row: its header, whose text has a position, and the two lines below it.
func (e *errorspec) lines(table ast.Node) (from, to int) {
	for cell := table.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
		for _, segment := range cell.Lines().Sliced(0, cell.Lines().Len()) {
			from = lineStart(e.raw, segment.Start) // the cell class has one
		}
	}
	for to = from; bytes.Count(e.raw[from:to], []byte("\n")) < 3 && to < len(e.raw); {
		to = lineEnd(e.raw, to)
	}
	return from, to
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
	case !s.declared:
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

// mend adds a problem that Fix mends, unless it leaves the section alone: text takes the place of the table.
func (s *errorSection) mend(message string, want ErrorSpec, text string) {
	s.problem(message, "toolbus tools lint --fix writes the tables of errors.md from the manifest")
	if !s.fixed {
		s.problems[len(s.problems)-1].edit = &edit{from: s.from, to: s.to, text: text, declares: &want}
	}
}

// inserted returns a table as it is inserted below a heading that ends at an offset, apart from what follows.
func (e *errorspec) inserted(at int, table string) string {
	if at > 0 && e.raw[at-1] != '\n' {
		table = "\n" + table
	}
	if rest, _, _ := bytes.Cut(e.raw[at:], []byte("\n")); len(bytes.TrimSpace(rest)) > 0 {
		table += "\n"
	}
	return "\n" + table
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
// has, the tables fill in what its errors leave out, and a difference is a fault.
func (l *toolLoader) errorspec(name string, declared *[]ErrorSpec) {
	spec := l.readErrorspec(name)
	if spec == nil {
		l.fillErrors(*declared)
		return
	}
	severity, filled := Refused, spec.fill(*declared)
	_, inManifest := l.keys["/errors"]
	if l.fillErrors(*declared); inManifest {
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
	if !inManifest || filled {
		l.sums[path.Clean(name)] = spec.sum()
	}
}

// readErrorspec reads an errors.md, or returns nil.
func (l *toolLoader) readErrorspec(name string) *errorspec {
	if name == "" || l.bad["/errorspec"] {
		return nil
	}
	raw, err := readFile(l.files, path.Clean(name), maxErrorspec)
	if err != nil {
		l.fail("/errorspec", reason(err), "put the file there, it may be empty, or leave the field out")
		return nil
	}
	return parseErrorspec(raw)
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
		case at < 0 || s.fixed:
		case !s.declared:
			s.problems = nil
			s.mend(s.spec.Name+" has no table", declared[at], e.inserted(s.from, declared[at].Table()))
		case !s.spec.equal(declared[at]) || s.retries != "" && s.retries != declared[at].retryable():
			s.problems = nil
			s.mend("the table of "+s.spec.Name+" differs from the manifest", declared[at], declared[at].Table())
		}
	}
	for _, d := range declared {
		has := func(s errorSection) bool { return s.spec.Name == d.Name }
		if !errorPattern.MatchString(d.Name) || slices.ContainsFunc(e.sections, has) {
			continue
		}
		s := errorSection{spec: d, at: e.place(len(e.raw)), from: len(e.raw), to: len(e.raw)}
		s.mend(d.Name+" has no section", d, e.inserted(len(e.raw), "## "+d.Name+"\n\n"+d.Table()))
		e.sections = append(e.sections, s)
	}
}

// equal reports whether two declarations of an error say the same. A table has one line for each text.
func (e ErrorSpec) equal(other ErrorSpec) bool {
	e.Message, e.Fix = oneLine(e.Message), oneLine(e.Fix)
	other.Message, other.Fix = oneLine(other.Message), oneLine(other.Fix)
	return e == other
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
