package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// others are what replaces an operator.
var others = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"},
}

// names are what replaces a function or a constant.
var names = map[string]string{"min": "max", "max": "min", "true": "false", "false": "true", "Before": "After", "After": "Before"}

// mutateGo finds what to change in a Go file: operators, bounds, conditions, fields of returned
// values, and statements.
func mutateGo(text string) ([]edit, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := goEdits{at: func(p token.Pos) int { return files.Position(p).Offset }}
	ast.Inspect(file, g.visit)
	return g.edits, nil
}

type goEdits struct {
	at    func(token.Pos) int
	edits []edit
}

func (g *goEdits) replace(from, to token.Pos, with string) {
	g.edits = append(g.edits, edit{g.at(from), g.at(to), with})
}

func (g *goEdits) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.Field: // neither paths nor types
		return false
	case *ast.BinaryExpr:
		for _, other := range others[n.Op] {
			g.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			g.replace(n.Pos(), n.Pos()+1, "")
		}
	case *ast.Ident:
		if other, ok := names[n.Name]; ok {
			g.replace(n.Pos(), n.End(), other)
		}
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			g.replace(n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	case *ast.IfStmt:
		g.condition(n.Cond)
	case *ast.CaseClause:
		for _, c := range n.List {
			if _, name := c.(*ast.SelectorExpr); !name { // a switch without a tag has conditions as cases
				g.condition(c)
			}
		}
	case *ast.BlockStmt:
		g.statements(n.List)
	case *ast.CompositeLit:
		g.fields(n)
	}
	return true
}

// condition is replaced by either constant.
func (g *goEdits) condition(c ast.Expr) {
	if _, ident := c.(*ast.Ident); !ident {
		g.replace(c.Pos(), c.End(), "true")
		g.replace(c.Pos(), c.End(), "false")
		return
	}
	g.replace(c.Pos(), c.Pos(), "!")
}

// statements of a block are left out, one at a time.
func (g *goEdits) statements(all []ast.Stmt) {
	for _, s := range all {
		switch s.(type) {
		case *ast.AssignStmt, *ast.IncDecStmt, *ast.ExprStmt:
			g.replace(s.Pos(), s.End(), "")
		}
	}
}

// fields of a literal are left out, one at a time.
func (g *goEdits) fields(n *ast.CompositeLit) {
	for i, e := range n.Elts {
		if _, keyed := e.(*ast.KeyValueExpr); !keyed {
			continue
		}
		to := e.End()
		if i+1 < len(n.Elts) {
			to = n.Elts[i+1].Pos()
		}
		g.replace(e.Pos(), to, "")
	}
}
