package docs_test

import (
	"path/filepath"
	"testing"
)

// TestFrontDoor tests a module that is not this one, and imports of it only what Go users are to import.
func TestFrontDoor(t *testing.T) {
	module := filepath.Join(root, "test", "frontdoor")
	goIn(t, module, "go", "mod", "tidy", "-diff") // otherwise run go mod tidy in test/frontdoor
	goIn(t, module, "go", "vet", "./...")
	goIn(t, module, "go", "test", "./...")
}
