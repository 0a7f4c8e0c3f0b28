package chaos

// oldBinaryArgs returns args with the flags of the release before this one, which this build knows as well. With the
// next release, they are the same: then remove it.
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
