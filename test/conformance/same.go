package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// same compares what the suite found in two runs, and fails where a check differs that is not in the list, or does not
// and is.
func same(one, other, list string) error {
	a, err := found(one)
	if err != nil {
		return err
	}
	b, err := found(other)
	if err != nil {
		return err
	}
	named, err := listed(list)
	if err != nil {
		return err
	}
	checks := maps.Clone(a)
	maps.Copy(checks, b)
	equal := 0
	for _, check := range slices.Sorted(maps.Keys(checks)) {
		scenario, _, _ := strings.Cut(check, ":")
		_, all := named[scenario]
		_, this := named[check]
		switch differs := a[check] != b[check]; {
		case differs && all:
			named[scenario] = true
		case differs && this:
			named[check] = true
		case differs:
			err = errors.Join(err, fmt.Errorf("%s: %q directly, %q through the bus", check, a[check], b[check]))
		default:
			equal++
		}
	}
	for name, differs := range named {
		if !differs {
			err = errors.Join(err, fmt.Errorf("%s: is in %s, and does not differ", name, list))
		}
	}
	if equal < least {
		err = errors.Join(err, fmt.Errorf("only %d checks were compared", equal))
	}
	fmt.Printf("%d checks have the same result directly and through the bus, and %d another\n", equal, len(checks)-equal)
	return err
}

// least is how many checks there are at the least where the suite has run at all.
const least = 50

// found reads the results in a folder of the suite: statuses, by scenario and check.
func found(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	results := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var checks []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, c := range checks {
			name := scenario.ReplaceAllString(filepath.Base(filepath.Dir(file)), "$1") + ":" + c.ID
			results[name] = strings.TrimPrefix(results[name]+","+c.Status, ",")
		}
	}
	return results, nil
}

// scenario is in the name of the folder, before the time.
var scenario = regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT[-0-9]*Z$`)

// listed reads a list: a scenario or scenario:check in each line, and comments.
func listed(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name != "" {
			names[name] = false
		}
	}
	return names, nil
}
