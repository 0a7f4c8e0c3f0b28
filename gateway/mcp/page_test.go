package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Pages of lists end by their size, too, and a page has one tool at least.
func TestPageBytes(t *testing.T) {
	var all []*Definition
	for i, size := range []int{100, 100, 100, 100, 100, 100, 600, 600, 1, 1, 100} {
		text := jsontext.Value(strings.Repeat("x", size<<10))
		all = append(all, &Definition{Name: fmt.Sprintf("t%02d", i), Shown: text, older: text[:len(text)/2]})
	}
	v := newView(all)
	for protocol, want := range map[string]string{
		modern: "[5 1 1 1 3]", "2025-11-25": "[6 1 4]",
	} {
		var pages []int
		for cursor := ""; len(pages) == 0 || cursor != ""; {
			page, next, err := v.page(cursor, 100, protocol)
			if err != nil {
				t.Fatal(err)
			}
			pages, cursor = append(pages, len(page)), next
		}
		if got := fmt.Sprint(pages); got != want {
			t.Errorf("%s: pages of %s tools, want %s", protocol, got, want)
		}
	}
}
