package importer

import "strings"

// maxLines is the largest number of lines of a text that diff compares line by line.
const maxLines = 4000

// diff returns the lines in which two texts differ, prefixed by - or +, with two lines of context. If a text is longer
// than maxLines, it returns all lines of both.
func diff(before, after string) []string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] && a[len(a)-1] == "" {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) > maxLines || len(b) > maxLines {
		return append(marked("- ", a), marked("+ ", b)...)
	}
	common := longest(a, b)
	var all []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			all = append(all, "- "+a[i])
			i++
		default:
			all = append(all, "+ "+b[j])
			j++
		}
	}
	return around(all)
}

// longest returns, for each pair of positions, the length of the longest common subsequence of the lines from there on.
func longest(a, b []string) [][]int16 {
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
				continue
			}
			common[i][j] = max(common[i+1][j], common[i][j+1])
		}
	}
	return common
}

func marked(mark string, lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, mark+line)
	}
	return all
}

// around removes lines that are more than two lines away from a difference.
func around(all []string) (near []string) {
	const context = 2
	last := -1
	for i, line := range all {
		keep := false
		for k := max(0, i-context); k <= min(len(all)-1, i+context); k++ {
			keep = keep || all[k][0] != ' '
		}
		if !keep {
			continue
		}
		if last >= 0 && i > last+1 {
			near = append(near, "  ...")
		}
		near, last = append(near, line), i
	}
	return near
}
