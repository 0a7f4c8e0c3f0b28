package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// docs/wire.md has a row for each event of the audit record, and for no other. It says of those that no code mentions
// that no process writes them, and of no others.
func TestEventsOfTheRecord(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/wire.md"), "\n### Events of the record\n")
	section, _, _ = strings.Cut(section, "\n## ")
	written := map[audit.Event]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			written[audit.Event(m[1])] = !strings.Contains(cells[3], "no process writes these")
		}
	}
	mentioned := mentionedEvents(t)
	for _, e := range audit.Events() {
		if says, ok := written[e]; !ok || says != mentioned[e] {
			t.Errorf("docs/wire.md: row for the event %s: %t, which says that it is written: %t; it is: %t", e, ok, says,
				mentioned[e])
		}
	}
	for e := range written {
		if !slices.Contains(audit.Events(), e) {
			t.Errorf("docs/wire.md has a row for %s, which is no event", e)
		}
	}
}

// mentionedEvents returns the events whose constants the code mentions outside of their list.
func mentionedEvents(t *testing.T) map[audit.Event]bool {
	const list = "internal/audit/event.go"
	inside, outside := "", ""
	for _, name := range files(t, ".go") {
		switch {
		case name == list || strings.HasSuffix(name, "_test.go"):
		case path.Dir(name) == path.Dir(list):
			inside += read(t, name)
		default:
			outside += read(t, name)
		}
	}
	mentioned := map[audit.Event]bool{}
	for _, m := range regexp.MustCompile(`(\w+) +Event = "(\w+)"`).FindAllStringSubmatch(read(t, list), -1) {
		use := regexp.MustCompile(`\b` + m[1] + `\b`)
		mentioned[audit.Event(m[2])] = use.MatchString(inside) || strings.Contains(outside, "audit."+m[1])
	}
	return mentioned
}
