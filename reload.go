package toolbus

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// defaultsFile is a file of [Toolset.SetDefaults].
type defaultsFile struct{ file, environment string }

// using holds the sets of the dispatchers and executors that were made with a [Toolset].
type using struct {
	mu  sync.Mutex // dispatchers and executors may be made at the same time
	all []user
}

// user is a dispatcher or an executor. fits returns an error if it could not go on with a tool.
type user struct {
	set  *tool.Set
	fits func(*tool.Manifest) error
}

// use notes a dispatcher or an executor, if a folder can be read again.
func (t *Toolset) use(set *tool.Set, fits func(*tool.Manifest) error) {
	if len(t.dirs) == 0 {
		return
	}
	t.using.mu.Lock()
	defer t.using.mu.Unlock()
	t.using.all = append(t.using.all, user{set, fits})
}

// reload reads a folder again that was added before, for all that use the set.
func (t *Toolset) reload(dir string) error {
	read, problems, err := tool.LoadEach(dir, app.Transports()...)
	if err != nil {
		return err
	}
	t.folders, problems = t.merged(dir, read.List(), problems)
	all, _ := t.registry() // what could not be added has kept the set from being used
	t.using.mu.Lock()
	defer t.using.mu.Unlock()
	for _, u := range slices.Backward(t.using.all) { // executors have a build before dispatchers admit calls for it
		u.set.Replace(all.List()...)
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// merged returns the tools of all folders after a folder was read again. A tool with a problem, or that does not fit a
// dispatcher or an executor, stays as it was. It adds those that do not fit to the problems.
func (t *Toolset) merged(
	dir string, read []*tool.Manifest, problems tool.Problems,
) ([]*tool.Manifest, tool.Problems) {
	broken := map[string]bool{} // by folder of the tool
	for _, p := range problems {
		broken[filepath.Join(dir, p.Folder())] = true
	}
	had := map[string]*tool.Manifest{}
	next := &Toolset{typed: t.typed}
	for _, m := range t.folders {
		if filepath.Dir(m.Dir) != dir || broken[m.Dir] {
			next.folders = append(next.folders, m)
			problems = append(problems, edited(m, broken[m.Dir])...)
		} else {
			had[m.ToolID] = m
		}
	}
	for _, m := range read {
		if broken[m.Dir] {
			continue
		}
		before := had[m.ToolID]
		successor, err := t.successor(before, m, next.has(m.ToolID))
		if found, ok := errors.AsType[tool.Problems](err); ok { // it cannot run here
			problems = append(append(problems, found...), edited(before, before != nil)...)
		} else if err != nil {
			problems = append(problems, tool.Problem{File: filepath.Base(m.Dir) + "/tool.yaml", Message: err.Error()})
		}
		if successor != nil {
			next.folders = append(next.folders, successor)
		}
	}
	return next.folders, problems
}

// edited returns the problem of a broken tool that stays as it was, and whose files have changed meanwhile.
func edited(m *tool.Manifest, broken bool) tool.Problems {
	if !broken {
		return nil
	}
	if err := m.Intact(); err != nil {
		return tool.Problems{{
			File: filepath.Base(m.Dir) + "/tool.yaml", Refusing: true,
			Message: "its calls are refused with " + string(envelope.CodeUnavailable) + " until it is loaded again: " +
				err.Error(),
		}}
	}
	return nil
}

// successor returns what is in the set after a tool was read again. taken means that another tool has its id. It
// returns nil if the tool is not in the set.
func (t *Toolset) successor(before, read *tool.Manifest, taken bool) (m *tool.Manifest, err error) {
	switch {
	case taken:
		return nil, fmt.Errorf("there is a tool %s already", read.ToolID)
	case before != nil && before.Same(read):
		return before, nil
	}
	if m, err = t.fitting(read); err != nil {
		return before, err
	}
	return m, nil
}

// fitting returns a tool with the defaults of the set, or an error if a dispatcher or an executor could not go on with
// it.
func (t *Toolset) fitting(m *tool.Manifest) (*tool.Manifest, error) {
	for _, d := range t.defaults {
		read, err := tool.ReadDefaults(d.file)
		if err == nil {
			m, err = read.Apply(m, d.environment)
		}
		if err != nil {
			return nil, err
		}
	}
	t.using.mu.Lock()
	defer t.using.mu.Unlock()
	for _, u := range t.using.all {
		if err := u.fits(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}
