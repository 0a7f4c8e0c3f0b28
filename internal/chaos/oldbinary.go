package chaos

import (
	"bytes"
	"os/exec"
)

// insecure is the flag of dispatchers without secrets.
const insecure = "--insecure-no-auth"

// knowsInsecure reports whether dispatchers of the program have the flag. Builds without it serve without secrets, and
// refuse it.
func knowsInsecure(binary string) bool {
	help, err := exec.Command(binary, "dispatcher", "--help").Output()
	return err == nil && bytes.Contains(help, []byte(insecure))
}

// oldBinaryArgs returns args with the flag names of the previous release. This build accepts those too. Remove the
// function after the next release, when the names are the same.
func oldBinaryArgs(args []string) []string {
	old := map[string]string{"--batch": "--group", "--secrets-dir": "--keys"}
	var out []string
	for i := 0; i < len(args); i++ {
		switch name, renamed := old[args[i]]; {
		case renamed:
			out = append(out, name)
		case args[i] != "--sync":
			out = append(out, args[i])
		default: // a switch without a value, and off by default
			if i++; args[i] == "always" {
				out = append(out, "--fsync")
			}
		}
	}
	return out
}
