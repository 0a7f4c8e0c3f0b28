package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lookEvery is the time between two looks at the files of tools. A change is loaded when the next look finds no other
// one, because editors and compilers write a file in steps.
const lookEvery = 100 * time.Millisecond

// maxPause bounds the time between two looks, whatever a look takes on a busy machine.
const maxPause = 500 * time.Millisecond

// pauseAfter returns the time to the next look after one that took a time. A folder with many files costs a tenth of a
// processor, until the bound.
func pauseAfter(took time.Duration) time.Duration { return min(max(lookEvery, 10*took), maxPause) }

// follow loads the tools again when their files change, until ctx ends. read is the stamp of the folder before the
// tools were read first.
func (d *development) follow(ctx context.Context, tools *toolbus.Toolset, read string) {
	last := read
	for pause := lookEvery; timer.Sleep(ctx, pause); {
		began := time.Now()
		now := stampOf(d.node.Tools)
		pause = pauseAfter(time.Since(began)) // without the time of loading
		switch {
		case now == read:
		case now == last:
			read = now
			d.reload(tools)
		default:
			pause = lookEvery
		}
		last = now
	}
}

// leaveOut takes the tools that cannot run here out of a set, and prints why. If none is left, that is the error.
func (d *development) leaveOut(tools *toolbus.Toolset) error {
	set, found, err := d.env.problemsOf(d.node.Tools)
	if err != nil {
		return err
	}
	problems := found.Unloaded()
	broken := foldersOf(problems)
	for _, m := range set.List() {
		if folder := filepath.Base(m.Dir); m.Pool != cmp.Or(d.pool.Name, tool.DefaultPool) {
			delete(broken, folder) // another executor runs it
		} else if broken[folder] {
			tools.Remove(m.ToolID)
		}
	}
	d.loaded.problems = slices.DeleteFunc(problems, func(p tool.Problem) bool { return !broken[p.Folder()] })
	if tools.Len() == 0 && len(broken) > 0 {
		return d.loaded.problems.Below(d.node.Tools)
	}
	fmt.Fprint(d.env.stderr, cli.EscapeText(d.loaded.says(d.node.Tools)))
	return nil
}

// reload loads the tools that have changed, and prints them and the problems of others.
func (d *development) reload(tools *toolbus.Toolset) {
	set, found, err := d.env.problemsOf(d.node.Tools)
	problems := found.Unloaded()
	if err == nil {
		read := set.Digest() + problems.Error()
		if read == d.loaded.read && len(problems) == 0 { // with a problem, the program may be another one
			return
		}
		d.loaded.read = read
		err = tools.AddFolder(d.node.Tools) // its problems include those of tools that need a restart
		problems, _ = errors.AsType[tool.Problems](err)
	}
	if err != nil && problems == nil {
		fmt.Fprintln(d.env.stderr, "warning: the tools are not loaded again:", cli.EscapeText(err.Error()))
		return
	}
	before := d.loaded.problems
	d.loaded.problems = problems
	changed := d.loaded.compare(set, before)
	if len(changed) > 0 {
		fmt.Fprintf(d.env.stdout, "tools have changed: %s\n", cli.EscapeText(strings.Join(changed, ", ")))
	}
	if problems.Error() != before.Error() {
		fmt.Fprint(d.env.stderr, cli.EscapeText(d.loaded.says(d.node.Tools)))
	}
	for _, p := range d.loaded.warn(found, changed).Below(d.node.Tools) {
		fmt.Fprintln(d.env.stderr, cli.EscapeText(p.String()))
	}
}

// loaded is the result of the last reload.
type loaded struct {
	builds   map[string]build  // of each tool that is served, by id
	folders  map[string]string // folder of each tool that was loaded again, by id
	problems tool.Problems     // of the tools that are not loaded
	warnings map[string]bool   // of the last reload, by file and text
	read     string            // changes with the tools and problems that were read
}

// build is a build of a tool.
type build struct{ digest, version string }

// warn keeps the warnings among the problems of a folder, and returns those of changed tools that are new.
func (l *loaded) warn(found tool.Problems, changed []string) (fresh tool.Problems) {
	has, edited := map[string]bool{}, map[string]bool{}
	for _, name := range changed {
		id, _, _ := strings.Cut(name, " ") // without (repaired)
		edited[id], edited[subjects.Token(id)] = true, true
	}
	for _, p := range found {
		key := p.File + ": " + p.Message
		if p.Severity == tool.Refused || has[key] {
			continue
		}
		if has[key] = true; edited[p.Folder()] && !l.warnings[key] {
			fresh = append(fresh, p)
		}
	}
	l.warnings = has
	return fresh
}

// compare keeps the builds of a set, and returns which of its tools are new, have another build, had a problem before,
// or are gone. A tool with a problem stays as it was.
func (l *loaded) compare(set *tool.Set, before tool.Problems) (changed []string) {
	broken, builds := foldersOf(l.problems), map[string]build{}
	if l.folders == nil {
		l.folders = map[string]string{}
	}
	for _, m := range set.List() {
		switch folder := filepath.Base(m.Dir); {
		case broken[folder]:
			continue
		case foldersOf(before)[folder]:
			changed = append(changed, m.ToolID+" (repaired)")
		case l.builds[m.ToolID].digest != m.Digest:
			changed = append(changed, m.ToolID+l.builds[m.ToolID].becomes(m.Semver))
		}
		builds[m.ToolID], l.folders[m.ToolID] = build{m.Digest, m.Semver}, filepath.Base(m.Dir)
	}
	for _, id := range slices.Sorted(maps.Keys(l.builds)) {
		switch {
		case builds[id].digest != "":
		case slices.ContainsFunc(l.problems, func(p tool.Problem) bool { return l.from(p.Folder(), id) }):
			builds[id] = l.builds[id]
		default:
			changed = append(changed, id+" (removed)")
		}
	}
	l.builds = builds
	return changed
}

// becomes returns the versions of a build and of the next one, or nothing if they are the same.
func (b build) becomes(version string) string {
	if b.version == "" || b.version == version {
		return ""
	}
	return " (" + b.version + " is now " + version + ")"
}

// from reports whether a tool that is served was loaded from a folder. The folder of a tool that was never loaded again
// is not known: it has one of the two names that a folder may have.
func (l *loaded) from(folder, id string) bool {
	if of, known := l.folders[id]; known {
		return of == folder
	}
	return folder == id || folder == subjects.Token(id)
}

// serves reports whether a tool that is served was loaded from a folder.
func (l *loaded) serves(folder string) bool {
	for id := range l.builds {
		if l.from(folder, id) {
			return true
		}
	}
	return false
}

// says returns the problems of a folder of tools, those of tools that are served first.
func (l *loaded) says(dir string) (text string) {
	refusing := map[string]bool{} // by folder
	for _, p := range l.problems {
		refusing[p.Folder()] = refusing[p.Folder()] || p.Refusing
	}
	groups := map[string]tool.Problems{}
	const served, refused, unserved = "still served as before", "refused until the problem is mended", "not served"
	for _, p := range l.problems {
		state := served
		switch {
		case !l.serves(p.Folder()):
			state = unserved
		case refusing[p.Folder()]:
			state = refused
		}
		groups[state] = append(groups[state], p)
	}
	for _, state := range []string{served, refused, unserved} {
		if len(groups[state]) > 0 {
			text += "not loaded, and " + state + ":\n" + groups[state].Below(dir).Error() + "\n"
		}
	}
	return text
}

// foldersOf returns the folders of tools with a problem.
func foldersOf(problems tool.Problems) map[string]bool {
	folders := map[string]bool{}
	for _, p := range problems {
		folders[p.Folder()] = true
	}
	return folders
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
	if strings.HasPrefix(base, ".") || tool.OfPackages(base) {
		return true
	}
	below, err := filepath.Rel(root, name)
	return err != nil || strings.Count(below, string(filepath.Separator)) >= maxStampDepth
}
