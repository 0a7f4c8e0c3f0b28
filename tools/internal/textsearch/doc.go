// Package textsearch finds the lines of files that match a pattern, as ripgrep does, and streams each as soon as it is
// found: the tool text.search.
//
// # Where
//
// All paths are relative to one root folder, TEXT_SEARCH_ROOT in the manifest's env, else the
// working directory. Nothing outside of it can be reached (os.Root). Folders are searched in
// order of names, and files in the order of the paths asked for, each once, so the same files
// give the same chunks.
//
// A folder is searched without: names that start with a point; what its .gitignore files
// exclude; symbolic links; devices and pipes. A path that is asked for by name is searched in any
// case. Everywhere, files with a NUL byte in their first 8 KiB count as binary and are passed
// over, and so are files above 16 MiB; a warning names the large ones.
//
// # What matches
//
// Patterns are those of Go's regexp package (RE2 without \C): matching takes time linear in the
// text, and there are no back-references. A pattern is matched against one line at a time,
// without its line end and without the byte order mark of the file. Invalid UTF-8 in a line shows
// as U+FFFD.
//
// # .gitignore
//
// Files named .gitignore in the root and below count as git documents them: later lines win, "!"
// takes back, a slash at the end means folders, any other slash ties a pattern to its folder,
// and "*", "?", "[a-z]", "**" and "\" mean what they mean there. Nothing below an excluded
// folder can be taken back. Two things differ: "?" and classes match one character and not one
// byte, and "a**/b" is "a*/b", although git takes it for "a" and anything below. Git's other
// places for exclusions (.git/info/exclude and the user's own file), the index and submodules do
// not count.
//
// The input's glob patterns have the same form: a file has to match one, if there are any, and
// "!" excludes.
package textsearch
