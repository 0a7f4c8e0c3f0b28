package process

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Doubts returns warnings about the command of a tool that can be loaded. Either this host cannot run it with the
// variables environ, or it names a file outside of the tool's folder, which is not in the build.
func Doubts(m *tool.Manifest, environ []string) (warnings []tool.Problem) {
	e, ours := m.Endpoint.(Endpoint)
	if !ours || !m.Callable() || m.Missing != "" {
		return nil
	}
	warn := func(message, hint string) {
		warnings = append(warnings, tool.Problem{
			File: filepath.Base(m.Dir) + "/tool.yaml", Severity: tool.Warning, Message: message, Hint: hint,
		})
	}
	a := Adapter{environ: parseEnviron(environ)}
	if err := a.Validate(m); err != nil {
		warn("the tool cannot run here: "+err.Error(), "install what is missing, or correct the command or the program")
	}
	for _, arg := range e.Command[1:] {
		if filepath.IsLocal(arg) || path.IsAbs(arg) {
			continue
		}
		if info, err := os.Stat(filepath.Join(m.Dir, arg)); err == nil && info.Mode().IsRegular() {
			warn(fmt.Sprintf("the file %s is outside of the tool's folder, so the build digest does not cover it", arg),
				"move it into the folder, or accept that edits of it are not seen")
		}
	}
	return warnings
}
