package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// docs/wire.md has a row for each event of the audit record, and for no other.
func TestEventsOfTheRecord(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/wire.md"), "\n### Events of the record\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []audit.Event
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			named = append(named, audit.Event(m[1]))
		}
	}
	for _, e := range audit.Events() {
		if !slices.Contains(named, e) {
			t.Errorf("docs/wire.md has no row for the event %s", e)
		}
	}
	for _, e := range named {
		if !slices.Contains(audit.Events(), e) {
			t.Errorf("docs/wire.md has a row for %s, which is no event", e)
		}
	}
}
