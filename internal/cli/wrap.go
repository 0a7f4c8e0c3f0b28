package cli

import "strings"

// Wrapped returns a text in lines of at most width characters, without its spaces at the breaks.
func Wrapped(text string, width int) (lines []string) {
	line, n := "", 0
	for word := range strings.FieldsSeq(text) {
		for part := []rune(word); len(part) > 0; {
			gap := min(n, 1)
			switch {
			case n+gap+len(part) <= width:
				line, n, part = line+strings.Repeat(" ", gap)+string(part), n+gap+len(part), nil
			case n > 0:
				lines, line, n = append(lines, line), "", 0
			default: // a word that is longer than a line
				lines, part = append(lines, string(part[:width])), part[width:]
			}
		}
	}
	if n > 0 {
		lines = append(lines, line)
	}
	return lines
}
