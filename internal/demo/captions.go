package demo

import (
	_ "embed" // the talk
	"fmt"
	"strings"
	"time"
)

//go:embed site/talk.txt
var talk string

// captions returns WebVTT captions of a long talk, as video sites provide them: 2,600 cues with hesitations, sounds and
// a position on the screen.
func captions() string {
	const cues, spoken = 2600, 1800 * time.Millisecond
	lines := strings.Split(strings.TrimSpace(talk), "\n")
	var b strings.Builder
	b.WriteString("WEBVTT\nKind: captions\nLanguage: en\n\n")
	for i := range cues {
		start := time.Duration(i) * 2 * time.Second
		fmt.Fprintf(&b, "%s --> %s align:start position:0%%\n%s\n\n", stamp(start), stamp(start+spoken), lines[i%len(lines)])
	}
	return b.String()
}

func stamp(d time.Duration) string {
	t := time.Time{}.Add(d)
	return t.Format("15:04:05.000")
}
