package imports_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The bounds of the layout. A folder of internal/ is a domain, a product package is one noun.
const (
	maxDomains  = 22 // 20 of the house, policy, which the house kept a place for, and operation
	maxProducts = 46 // 45 of the house, and caller
)

// further are product packages beyond maxProducts. docs/architecture.md says why each is one.
var further = []string{
	"internal/cli/mcpcmd", "internal/tool/process/protocol", "internal/tool/mcp/clientconfig", "internal/telemetry/otlp",
	"internal/telemetry/monitor",
	"internal/tool/address", "internal/tool/mcp/oauth", "internal/tool/scaffold",
	"internal/client/catalogue", "internal/client/chunk", "internal/client/exchange", "internal/client/link",
	"internal/dispatcher/admission", "internal/dispatcher/answer", "internal/dispatcher/check",
	"internal/dispatcher/deadline",
	"internal/operation", "internal/policy", "internal/policy/lock", "internal/policy/lockstore",
	"internal/policy/replica", "internal/policy/runstore", "internal/policy/store",
}

// exercise is what only runs, measures, attacks or tests the product, and what is made of it.
const exercise = "cmd/... test/... tools/... internal/bench/... internal/chaos/... internal/demo/... " +
	"internal/natsserver/..."

// product reports whether a package is part of the product: not a command, a tool, a suite or a helper of tests.
func product(path string) bool {
	return !matches(exercise, path) && (path == "toolbustest" || !strings.HasSuffix(path, "test"))
}

// TestLayout bounds the folders of internal/ and the product packages.
func TestLayout(t *testing.T) {
	domains, products := map[string]bool{}, map[string]bool{}
	for _, p := range packages(t) {
		if below, ok := strings.CutPrefix(p.path(), "internal/"); ok {
			domain, _, _ := strings.Cut(below, "/")
			domains[domain] = true
		}
		if product(p.path()) {
			products[p.path()] = true
		}
	}
	if len(domains) > maxDomains {
		t.Errorf("internal/ has %d folders, at most %d: %v", len(domains), maxDomains, domains)
	}
	if most := maxProducts + len(further); len(products) > most {
		t.Errorf("%d product packages, at most %d: merge two, or give the reason for one more in docs/architecture.md",
			len(products), most)
	}
	for _, path := range further {
		if !products[path] {
			t.Errorf("%s is not a product package: remove it from the list of this test", path)
		}
	}
}

// TestReasonedPlaces holds the reasons of docs/architecture.md to the tree: what they name exists, and further packages
// are among it.
func TestReasonedPlaces(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Why packages lie where they do\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z]+/[a-z/.]+)`").FindAllStringSubmatch(section, -1) {
		named[m[1]] = true
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Errorf("docs/architecture.md gives a reason for %s: %v", m[1], err)
		}
	}
	for _, path := range further {
		if !named[path] {
			t.Errorf("docs/architecture.md gives no reason for %s", path)
		}
	}
}
