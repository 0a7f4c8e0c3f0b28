// Package clientconfig reads and edits the configurations of MCP clients: the files in which desktop agents, editors
// and terminal agents keep the MCP servers that they start or reach.
//
// [Locate] and [At] find a file and the object in it that holds the servers. [Read] translates each server into the
// form that executors have, and reports what it cannot translate. [Install] replaces servers by one entry, and
// [Uninstall] undoes that. Both edit the text of the file, so comments, order and layout of everything else stay.
//
// No error of this package contains the value of a variable, a header, an argument or a URL.
package clientconfig
