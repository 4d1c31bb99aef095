package top

// grid is which rows of many are on the screen, and which of them is chosen.
type grid struct {
	cursor, offset, rows, height int
}

// fit takes in how many rows there are and how many can be seen, and keeps the chosen one in sight.
func (g *grid) fit(rows, height int) {
	g.rows, g.height = rows, max(1, height)
	g.cursor = max(0, min(g.cursor, rows-1))
	g.offset = max(0, min(g.offset, g.cursor, rows-g.height), g.cursor-g.height+1)
}

// move chooses another row by the name of a key, and reports whether that is what the key is for.
func (g *grid) move(key string) bool {
	switch key {
	case "up", "k":
		g.cursor--
	case "down", "j":
		g.cursor++
	case "pgup", "b":
		g.cursor -= g.height
	case "pgdown", "f", "space":
		g.cursor += g.height
	case "home", "g":
		g.cursor = 0
	case "end", "G":
		g.cursor = g.rows - 1
	default:
		return false
	}
	g.fit(g.rows, g.height)
	return true
}

// seen are the rows on the screen: from one up to but not including the other.
func (g *grid) seen() (from, to int) { return g.offset, min(g.rows, g.offset+g.height) }
