package docs_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

// TestWritingTools holds that docs/writing-tools.md shows the files that `toolbus tools new` writes: all of the Python
// tool but its test, and the programs in Node and shell.
func TestWritingTools(t *testing.T) {
	page, shown := read(t, "docs/writing-tools.md"), 0
	for language, names := range map[scaffold.Language]string{
		scaffold.Python: "tool.yaml request.json response.json main.py", scaffold.Node: "main.mjs", scaffold.Shell: "main.sh",
	} {
		files, err := scaffold.Spec{ID: "greet", Language: language, Class: scaffold.Pure}.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.Contains(" "+names+" ", " "+f.Name+" ") {
				continue
			}
			if shown++; !strings.Contains(page, " "+f.Name+"\n"+f.Text+"```\n") {
				t.Errorf("docs/writing-tools.md does not show %s of %s as it is:\n%s", f.Name, language, f.Text)
			}
		}
	}
	if shown != 6 {
		t.Errorf("only %d files were compared", shown)
	}
}
