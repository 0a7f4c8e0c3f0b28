package tool

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Unsafe returns the addresses, paths and commands in an input of f, as its schema declares them by format, that no
// tool gets. input must be valid. It changes nothing: what is unsafe is refused, and never rewritten. A path may be
// absolute only in one of the folders.
func (f *Function) Unsafe(input jsontext.Value, folders []string) (found []jsonschema.Violation) {
	all, err := f.Request.Formatted(input)
	if err != nil {
		const why = "cannot be checked: the schema tries it in too many ways"
		return []jsonschema.Violation{ijson.NewViolation("", "steps", why)}
	}
	for _, one := range all {
		if why := unsafe(one.Format, one.Value, folders); why != "" {
			found = append(found, ijson.NewViolation(one.Pointer, "format", why))
		}
	}
	return found[:min(len(found), ijson.MaxViolations)]
}

// unsafe returns why a value is not safe as what its format says, or "" if it is. A list is as safe as its items.
func unsafe(format string, value any, folders []string) string {
	list, isList := value.([]any)
	text, isText := value.(string)
	switch {
	case format == jsonschema.FormatCommand && isList:
		return unsafeVector(list)
	case isList:
		for _, item := range list {
			if why := unsafe(format, item, folders); why != "" {
				return why
			}
		}
	case !isText:
	case format == jsonschema.FormatURI:
		return unsafeAddress(text)
	case format == jsonschema.FormatPath:
		return unsafePath(text, folders)
	case format == jsonschema.FormatCommand:
		return unsafeCommand(text)
	}
	return ""
}

// unsafeAddress refuses addresses that lead elsewhere than to a web server, and those that programs read in several
// ways.
func unsafeAddress(address string) string {
	u, err := url.Parse(address)
	switch {
	case strings.ContainsFunc(address, unicode.IsControl):
		return "must have no control character"
	case err != nil:
		return "must be an address"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must be an http or https address"
	case u.User != nil:
		return "must have no user information"
	case u.Hostname() == "":
		return "must name a host"
	}
	return ""
}

// unsafePath refuses paths that lead out of the folder to which they are relative. The separator of Windows counts,
// too.
func unsafePath(name string, folders []string) string {
	parts := strings.FieldsFunc(name, isSeparator)
	switch {
	case strings.Contains(name, "\x00"):
		return "must have no NUL"
	case slices.Contains(parts, ".."):
		return "must have no member .."
	case isAbsolute(name) && !slices.ContainsFunc(folders, func(folder string) bool { return within(folder, name) }):
		return "must be relative, or lie in a folder that the tool may open"
	}
	return ""
}

func isSeparator(r rune) bool { return r == '/' || r == '\\' }

func isAbsolute(name string) bool {
	drive := len(name) > 2 && name[1] == ':' && isSeparator(rune(name[2]))
	return drive || name != "" && isSeparator(rune(name[0]))
}

// within reports whether an absolute path without .. lies in a folder. No path lies in a relative folder, because
// nobody here knows where that is.
func within(folder, name string) bool {
	folder, name = path.Clean(folder), path.Clean(name)
	return path.IsAbs(folder) && (name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/"))
}

// unsafeCommand refuses commands that a shell would take for several, or that read or write files.
func unsafeCommand(command string) string {
	switch {
	case strings.ContainsAny(command, ";|&$`<>"):
		return "must not contain ; | & $ ` < >"
	case strings.ContainsAny(command, "\n\r\v\f\u0085\u2028\u2029"):
		return "must be one line"
	case strings.Contains(command, "\x00"):
		return "must have no NUL"
	}
	return ""
}

// unsafeVector refuses what is not one argument vector. No shell reads the arguments, so they may have any character
// that an argument can have.
func unsafeVector(arguments []any) string {
	for _, argument := range arguments {
		text, ok := argument.(string)
		if !ok || strings.Contains(text, "\x00") {
			return "must be a list of strings without NUL"
		}
	}
	return ""
}
