package deployment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Rewrite replaces the server configurations in dir with those of this build. It takes Deployment and Profile from the
// secrets. The caller must set the other fields as for [Plan.Write]. Secrets and TLS files do not change. If a setting
// would change whose flag was not given, as given reports it, Rewrite changes nothing and returns an error that lists
// what would change.
func (p Plan) Rewrite(dir string, given func(flag string) bool) (files []File, err error) {
	keys, err := Load(filepath.Join(dir, "keys"))
	if err != nil {
		return nil, err
	}
	p.Deployment, p.Profile = keys.Deployment, keys.Profile
	public, err := keys.Public()
	if err != nil {
		return nil, err
	}
	if files, err = p.Servers(public); err != nil {
		return nil, err
	}
	if err = unmoved(dir, files, given); err != nil {
		return nil, err
	}
	for _, f := range files {
		file := filepath.Join(dir, f.Name)
		if err = os.WriteFile(file+".tmp", f.Text, 0o644); err == nil {
			err = os.Rename(file+".tmp", file)
		}
		if err != nil {
			return nil, fmt.Errorf("deployment: %w", err)
		}
	}
	return files, nil
}

// place is a setting of a server, of which a wrong value makes it unreachable or gives it an empty store, and the flags
// that set it.
type place struct {
	setting string
	flags   []string
}

func places() []place {
	return []place{{"listen", []string{"host"}}, {"store_dir", []string{"store-dir"}},
		{"cert_file", []string{"tls", "etc", "host"}}, {"routes", []string{"host"}}}
}

// unmoved returns an error if files would change a place that the configurations in dir have, and no flag is given for.
func unmoved(dir string, files []File, given func(flag string) bool) error {
	var moves, flags []string
	for _, f := range files {
		old, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deployment: %w", err)
		}
		for _, one := range places() {
			from, to := valuesOf(one.setting, old), valuesOf(one.setting, f.Text)
			if from != to && !slices.ContainsFunc(one.flags, given) {
				moves = append(moves, fmt.Sprintf("%s: %s is %s, and would be %s", f.Name, one.setting, from, to))
				flags = append(flags, "--"+one.flags[0])
			}
		}
	}
	if len(moves) == 0 {
		return nil
	}
	slices.Sort(flags)
	return fmt.Errorf("%s\ngive the flags that `toolbus keys init` was given, or what shall change: %s",
		strings.Join(moves, "\n"), strings.Join(slices.Compact(flags), ", "))
}

// valuesOf returns the values of a setting in the text of a configuration.
func valuesOf(setting string, text []byte) string {
	var all []string
	for _, found := range regexp.MustCompile(`(?m)^\s*`+setting+`: *(.*)$`).FindAllSubmatch(text, -1) {
		all = append(all, string(found[1]))
	}
	if all == nil {
		return "not set"
	}
	return strings.Join(all, " and ")
}
