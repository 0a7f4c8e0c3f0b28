package clientconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// maxEnvFile is the largest file of variables, in bytes.
const maxEnvFile = 1 << 20

var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*$`)

// readEnvFile reads a file of lines NAME=VALUE. Lines of another form are ignored, as clients do. No error contains a
// value.
func readEnvFile(file string) (map[string]string, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("its envFile %s is not there", file)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxEnvFile:
		return nil, fmt.Errorf("its envFile %s is no file of at most %d bytes", file, maxEnvFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(string(text), string(mark))) {
		m := assignment.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		value := unquoted(m[2])
		if strings.Contains(value, "${") {
			return nil, fmt.Errorf("the variable %s in its envFile %s contains ${, which executors would replace", m[1], file)
		}
		all[m[1]] = value
	}
	return all, nil
}

// unquoted returns the value of an assignment without quotes. In double quotes \n is a line break. Outside of quotes, #
// after a space begins a comment.
func unquoted(value string) string {
	if len(value) > 0 && (value[0] == '"' || value[0] == '\'' || value[0] == '`') {
		if end := strings.LastIndexByte(value, value[0]); end > 0 {
			inner := value[1:end]
			if value[0] == '"' {
				inner = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\"`, `"`, `\\`, `\`).Replace(inner)
			}
			return inner
		}
	}
	if i := strings.Index(value, " #"); i >= 0 {
		value = strings.TrimSpace(value[:i])
	}
	return value
}
