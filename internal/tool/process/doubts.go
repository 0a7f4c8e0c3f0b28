package process

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Doubts returns the problems of the command of a tool that can be loaded. This host cannot run it with the variables
// environ. Or it names a file outside of the tool's folder, which is not in the build: that is a warning.
func Doubts(m *tool.Manifest, environ []string) (problems tool.Problems) {
	e, ours := m.Endpoint.(Endpoint)
	if !ours || !m.Callable() || m.Missing != "" {
		return nil
	}
	a := Adapter{environ: parseEnviron(environ)}
	if err := a.Validate(m); err != nil {
		problems = append(problems, m.Unrunnable(err))
	}
	for _, arg := range e.Command[1:] {
		if filepath.IsLocal(arg) || path.IsAbs(arg) {
			continue
		}
		if info, err := os.Stat(filepath.Join(m.Dir, arg)); err == nil && info.Mode().IsRegular() {
			problems = append(problems, tool.Problem{
				File: filepath.Base(m.Dir) + "/tool.yaml", Severity: tool.Warning,
				Message: fmt.Sprintf("the file %s is outside of the tool's folder, so the build digest does not cover it", arg),
				Hint:    "move it into the folder, or accept that edits of it are not seen",
			})
		}
	}
	return problems
}
