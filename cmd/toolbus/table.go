package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// columnGap is the number of spaces between two columns of a table.
const columnGap = 2

// table is text in columns that fits into its width, but for a longer first one. It leaves out a column that is empty
// in all rows. The columns that have no room follow below each row, with their names.
type table struct {
	header []string
	rows   [][]string
	width  int // in columns; 0 is shownWidth
}

// lineWidth is the width of a table of long names: one line for each row if the output is no terminal.
func (e *environment) lineWidth() int {
	if !e.terminal {
		return math.MaxInt
	}
	columns, _ := e.size()
	return max(shownWidth, columns)
}

// add adds a row, with one cell for each column.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = cli.EscapeCell(cell)
	}
	t.rows = append(t.rows, cells)
}

// write prints the table, or nothing without rows.
func (t *table) write(to io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	var columns, below []int
	widths, used := t.widths(), 0
	for i, width := range widths {
		switch {
		case width == 0:
		case i == 0, len(below) == 0 && used+width <= cmp.Or(t.width, shownWidth):
			columns, used = append(columns, i), used+width+columnGap
		default:
			below = append(below, i)
		}
	}
	if _, err := fmt.Fprintln(to, line(t.header, columns, widths)); err != nil {
		return err
	}
	for _, row := range t.rows {
		if _, err := fmt.Fprintln(to, line(row, columns, widths)); err != nil {
			return err
		}
		writeWrapped(to, detailIndent, strings.Join(t.named(row, below), ", "))
	}
	return nil
}

// widths returns the width of each column with its header, and 0 for one that is empty.
func (t *table) widths() []int {
	widths := make([]int, len(t.header))
	for i := range widths {
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.header[i]))
		}
	}
	return widths
}

// named returns those cells of a row that are not empty, after the names of their columns.
func (t *table) named(row []string, columns []int) (all []string) {
	for _, i := range columns {
		if row[i] != "" {
			all = append(all, strings.ToLower(t.header[i])+" "+row[i])
		}
	}
	return all
}

// line returns the cells of a row that have a column.
func line(row []string, columns, widths []int) string {
	text := ""
	for _, i := range columns {
		cell := row[i]
		if cell == "" {
			cell = "-"
		}
		text += fmt.Sprintf("%-*s", widths[i]+columnGap, cell)
	}
	return strings.TrimRight(text, " ")
}
