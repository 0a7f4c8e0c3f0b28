package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	target = regexp.MustCompile(`(?m)^([a-z-]+):`)
	flag   = regexp.MustCompile(`^--?[a-zA-Z][a-zA-Z-]*`)
	word   = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// foreign are programs that are not ours; what the pages say about them is not checked.
var foreign = []string{
	"grep", "cd", "cat", "chmod", "chown", "curl", "docker", "echo", "export", "git", "go", "install", "jq", "kill",
	"mkdir", "mv", "nats", "nats-server", "openssl", "sed", "sha256sum", "skopeo", "systemctl", "tar", "umask", "useradd",
}

// TestCommands sees to it that every command line in the documentation exists: the target of
// make, the subcommand of toolbus, and each of its flags.
func TestCommands(t *testing.T) {
	bin := build(t)
	targets := target.FindAllStringSubmatch(read(t, "Makefile"), -1)
	checked := 0
	for _, page := range append(files(t, ".md"), "README.md") {
		for _, b := range blocksOf(read(t, page)) {
			if b.kind != "sh" {
				continue
			}
			for _, words := range commands(b.text) {
				checked++
				switch program := filepath.Base(words[0]); {
				case program == "make":
					for _, name := range words[1:] {
						if !slices.ContainsFunc(targets, func(m []string) bool { return m[1] == name }) {
							t.Errorf("%s: make %s: the Makefile has no such target", page, name)
						}
					}
				case slices.Contains([]string{"toolbus", "dispatcher", "executor", "toolbus-lab"}, program):
					checkCommand(t, page, filepath.Join(bin, program), words[1:])
				case strings.HasPrefix(words[0], "tools/"):
					if _, err := os.Stat(filepath.Join(root, filepath.Dir(words[0]), "main.go")); err != nil {
						t.Errorf("%s: %s: no such tool", page, words[0])
					}
				case strings.HasPrefix(words[0], "deploy/"):
					if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
						t.Errorf("%s: %s: no such program", page, words[0])
					}
				case words[0] == ".ci/run", slices.Contains(foreign, program):
				default:
					t.Errorf("%s: %q is no command of ours", page, strings.Join(words, " "))
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("found only %d commands", checked)
	}
}

// commands splits a block into the commands of its lines, each into words.
func commands(block string) (list [][]string) {
	block = strings.ReplaceAll(block, "\\\n", " ")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(" "+line, " #")
		for command := range strings.SplitSeq(line, " | ") {
			words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(command), "&"))
			if len(words) > 0 {
				list = append(list, words)
			}
		}
	}
	return list
}

// checkCommand asks the program itself whether it has the subcommand and the flags of words.
func checkCommand(t *testing.T, page, program string, words []string) {
	t.Helper()
	path := subcommand(words)
	for {
		help := output(t, program, append(slices.Clone(path), "--help")...)
		if strings.Contains(help, "\n  "+strings.Join(append([]string{filepath.Base(program)}, path...), " ")) {
			checkFlags(t, page, help, words)
			return
		}
		if len(path) <= 1 {
			t.Errorf("%s: %s %s: no such command", page, filepath.Base(program), strings.Join(words, " "))
			return
		}
		path = path[:len(path)-1] // the last word was an argument
	}
}

func checkFlags(t *testing.T, page, help string, words []string) {
	t.Helper()
	for _, w := range words {
		f := flag.FindString(w)
		if f != "" && !regexp.MustCompile(`(?m)(^|\s)`+f+`(,|\s|\[)`).MatchString(help) {
			t.Errorf("%s: %s: no such flag", page, strings.Join(words, " "))
		}
	}
}

// subcommand returns the words that may name a subcommand: those before flags and arguments.
func subcommand(words []string) []string {
	n := slices.IndexFunc(words, func(w string) bool { return !word.MatchString(w) })
	if n < 0 {
		n = len(words)
	}
	return slices.Clone(words[:min(n, 2)])
}

// build compiles the commands and returns the folder that they are in.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./cmd/toolbus", "./cmd/dispatcher",
		"./cmd/executor", "./cmd/toolbus-lab")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Logf("%s %s: %v", program, strings.Join(args, " "), err) // the caller judges what it said
	}
	return string(out)
}
