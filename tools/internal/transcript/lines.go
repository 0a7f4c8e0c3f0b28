package transcript

import (
	"strings"
	"unicode"
)

// splitLines cuts text at every kind of line end and removes what cannot be seen.
func splitLines(text string) []string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.Map(visible, text), "\n")
}

// visible maps line ends to '\n', drops control and invisible formatting characters, and keeps
// the joiners that Persian and Indic scripts and emoji need.
func visible(r rune) rune {
	switch r {
	case '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return '\n'
	case '\n', '\u200c', '\u200d':
		return r
	case '\t':
		return ' '
	case '\u00ad', '\u200b', '\u2060', '\ufeff':
		return -1
	}
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) { // the latter hide labels of speakers
		return -1
	}
	return r
}

// blocks groups lines by the blank lines between them.
func blocks(lines []string) [][]string {
	var all [][]string
	var block []string
	for _, line := range append(lines, "") {
		if strings.TrimSpace(line) != "" {
			block = append(block, line)
		} else if block != nil {
			all = append(all, block)
			block = nil
		}
	}
	return all
}

// utterance is one line of speech.
type utterance struct {
	speaker string // "" when the line does not say
	turn    bool   // whether a new paragraph starts here
	loose   bool   // labelled by nothing but a name, as films label voices from outside the picture
	text    string
	source  int // number of cues or lines read so far, for progress
}
