package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lookEvery is the time between two looks at the files of tools. A change is loaded when the next look finds no other
// one, because editors and compilers write a file in steps.
const lookEvery = 200 * time.Millisecond

// follow loads the tools again when their files change, until ctx ends. read is the stamp of the folder before the
// tools were read first.
func (d *development) follow(ctx context.Context, tools *toolbus.Toolset, read string) {
	said, last := "", read
	for wait := lookEvery; timer.Sleep(ctx, wait); {
		began := time.Now()
		now := stampOf(d.node.Tools)
		if now != read && now == last {
			read = now
			said = d.reload(tools, said)
		}
		last = now
		wait = max(lookEvery, 10*time.Since(began)) // a folder with many files costs a tenth of a processor
	}
}

// reload loads the tools that have changed, and prints them and the problems of others. said are the problems that it
// returned last.
func (d *development) reload(tools *toolbus.Toolset, said string) (says string) {
	set, problems, err := tool.LoadEach(d.node.Tools, app.Transports()...)
	var changed []string
	if err == nil {
		if changed = d.compare(set, problems); len(changed) == 0 && problems.Error() == said {
			return said
		}
		err = tools.AddFolder(d.node.Tools)
	}
	if len(changed) > 0 {
		fmt.Fprintf(d.env.stdout, "tools have changed: %s\n", cli.EscapeText(strings.Join(changed, ", ")))
	}
	if err == nil {
		return ""
	}
	if says = err.Error(); says != said {
		fmt.Fprintf(d.env.stderr, "not loaded, and still served as before:\n%s\n", cli.EscapeText(says))
	}
	return says
}

// compare returns which tools of a set were not there before, have another build or are gone, and keeps their builds. A
// tool with a problem stays as it was.
func (d *development) compare(set *tool.Set, problems tool.Problems) (changed []string) {
	broken := map[string]bool{} // by folder
	for _, p := range problems {
		folder, _, _ := strings.Cut(p.File, "/")
		broken[folder] = true
	}
	builds := map[string]string{}
	for _, m := range set.List() {
		if builds[m.ToolID] = m.Digest; d.builds[m.ToolID] != m.Digest {
			changed = append(changed, m.ToolID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.builds)) {
		switch {
		case builds[id] != "":
		case broken[id], broken[subjects.Token(id)]:
			builds[id] = d.builds[id]
		default:
			changed = append(changed, id+" (removed)")
		}
	}
	d.builds = builds
	return changed
}

// Bounds of stampOf.
const (
	maxStampDepth = 4
	maxStampFiles = 20_000
)

// stampOf returns a text that changes with the names, sizes and times of the files of tools, down to four levels. It
// leaves out hidden folders, and those of packages.
func stampOf(dir string) string {
	sum, n := sha256.New(), 0
	root := dir + string(filepath.Separator) // follows a link
	// a file that cannot be read has no stamp: when it can, the stamp changes
	_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if n++; n > maxStampFiles {
			return filepath.SkipAll
		}
		if err != nil {
			return nil
		}
		if entry.IsDir() && name != root && skipped(root, name) {
			return filepath.SkipDir
		}
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			fmt.Fprintf(sum, "%q %d %d %o\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode())
		} else {
			fmt.Fprintf(sum, "%q\n", name)
		}
		return nil
	})
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// skipped reports whether stampOf leaves out a folder.
func skipped(root, name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || slices.Contains([]string{"node_modules", "__pycache__", "venv"}, base) {
		return true
	}
	below, err := filepath.Rel(root, name)
	return err != nil || strings.Count(below, string(filepath.Separator)) >= maxStampDepth
}
