package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// flagged parses args, and returns the error that the user of a command gets.
func flagged(t *testing.T, args ...string) (sync bool, batch int, err error) {
	t.Helper()
	cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error { return CheckOldFlags(cmd.Flags()) }}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	SyncFlag(cmd, &sync, "")
	OldSyncFlag(cmd.Flags(), "fsync")
	cmd.Flags().IntVar(&batch, "batch", 0, "")
	OldFlag(cmd.Flags(), "group", cmd.Flags().Lookup("batch"))
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	err = errors.Join(cmd.Execute(), changed(cmd, args))
	return sync, batch, err
}

// changed reports an error if an old flag is on the command line and the flag does not count as given.
func changed(cmd *cobra.Command, args []string) error {
	for old, flag := range map[string]string{"--fsync": "sync", "--group": "batch"} {
		if strings.Contains(strings.Join(args, " "), old) && !cmd.Flags().Changed(flag) {
			return errors.New(old + " does not count as --" + flag)
		}
	}
	return nil
}

func TestOldFlagsWork(t *testing.T) {
	for args, want := range map[string]struct {
		sync  bool
		batch int
	}{
		"":                              {false, 0},
		"--sync always --batch 3":       {true, 3},
		"--fsync --group 3":             {true, 3},
		"--fsync=true --group=3":        {true, 3},
		"--fsync=false":                 {false, 0},
		"--fsync --sync always":         {true, 0},
		"--sync always --fsync":         {true, 0},
		"--group 3 --batch 0x3":         {false, 3},
		"--group 2 --group 3":           {false, 3}, // as with every flag, the last one counts
		"--sync interval --fsync=false": {false, 0},
	} {
		sync, batch, err := flagged(t, strings.Fields(args)...)
		if err != nil || sync != want.sync || batch != want.batch {
			t.Errorf("%q: sync %v, batch %d, %v; want %+v", args, sync, batch, err, want)
		}
	}
}

func TestOldFlagsContradict(t *testing.T) {
	for args, want := range map[string]string{
		"--fsync --sync interval":         `the old name of --sync, sets it to "always" and --sync to "interval"`,
		"--sync interval --fsync":         `the old name of --sync, sets it to "always" and --sync to "interval"`,
		"--fsync --sync interval --fsync": "leave --fsync out",
		"--group 3 --batch 4":             "leave --group out",
		"--batch 4 --group 3":             "leave --group out",
		"--sync sometimes":                "use always or interval",
		"--fsync=maybe":                   "invalid",
		"--group x":                       "invalid",
	} {
		if _, _, err := flagged(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func TestOldFlagsAreHidden(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {cobra.ShellCompNoDescRequestCmd, "--"}} {
		cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
		new(Node).ServerFlags(cmd)
		var out strings.Builder
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "--sync") || strings.Contains(out.String(), "--fsync") ||
			strings.Contains(out.String(), "--group") {
			t.Errorf("%v prints\n%s", args, &out)
		}
	}
}
