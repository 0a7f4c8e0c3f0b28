package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

var update = flag.Bool("update", false, "write testdata/help of TestHelp")

const helpDir = "testdata/help"

// TestHelp compares the help of every command with a file of testdata/help. After a change write them with go test
// ./cmd/toolbus -run TestHelp -update, and read the difference as a user who sees it for the first time.
func TestHelp(t *testing.T) {
	helps := helpOfAll(t)
	for name, help := range helps {
		checkHelp(t, name, help)
		file := filepath.Join(helpDir, strings.ReplaceAll(name, " ", "_")+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(help), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != help {
			t.Errorf("%s --help is not %s (%v); -update writes it:\n%s", name, file, err, help)
		}
	}
	files, err := os.ReadDir(helpDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.ReplaceAll(strings.TrimSuffix(f.Name(), ".txt"), "_", " ")
		if helps[name] == "" {
			t.Errorf("%s is of no command: remove it", f.Name())
		}
	}
}

// firstScreen is how many lines a terminal has.
const firstScreen = 24

// checkHelp checks that a help text fits into 120 columns, and that it begins with one line about the command, and its
// usage and examples on the first screen.
func checkHelp(t *testing.T, name, help string) {
	t.Helper()
	for line := range strings.Lines(help) {
		if utf8.RuneCountInString(line) > 121 {
			t.Errorf("%s: a line is longer than 120 characters: %s", name, line)
		}
	}
	if name == "toolbus-supervisor" {
		return
	}
	before, rest, found := strings.Cut(help, "\nExamples:\n  ")
	examples, _, _ := strings.Cut(rest, "\n\n")
	about, usage, _ := strings.Cut(before, "\n\n")
	switch lines := strings.Count(before+examples, "\n") + 2; {
	case !found:
		t.Errorf("%s shows no example", name)
	case about == "" || len(about) > 80 || strings.Contains(about, "\n") || !strings.HasPrefix(usage, "Usage:\n"):
		t.Errorf("%s does not begin with one line about it and its usage:\n%s", name, before)
	case lines > firstScreen:
		t.Errorf("%s has its last example in line %d", name, lines)
	}
}

// helpOfAll returns what all programs and commands print with --help, but for what the library brings, for hidden
// commands, and for the global flags of subcommands.
func helpOfAll(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"toolbus-supervisor": supervisor.Help}
	env := cli.Env{Config: "/home/ada/.config"}
	for name, command := range map[string]func(cli.Env, func() (cli.Access, error)) *cobra.Command{
		"dispatcher": cli.Dispatcher, "executor": cli.Executor,
	} {
		var out bytes.Buffer
		env.Stdout, env.Stderr = &out, &out
		if code := cli.Run(t.Context(), env, command, []string{"--help"}); code != 0 {
			t.Errorf("%s --help: exit %d", name, code)
		}
		all[name] = out.String()
	}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		if cmd.Hidden || slices.Contains([]string{"help", "completion"}, cmd.Name()) {
			return
		}
		all[cmd.CommandPath()] = helpOf(t, cmd)
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(newRoot(helpless()))
	return all
}

func helpless() *global { return newGlobal(&environment{home: "/home/ada"}) }

func helpOf(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(helpless())
	root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	help, _, _ := strings.Cut(out.String(), "\nGlobal Flags:\n")
	return help
}
