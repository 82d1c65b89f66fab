// Comma-separated values that a spreadsheet reads as text.

function cell(text: string): string {
  // A cell that begins like a formula would be one: a spreadsheet would run what somebody else wrote.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(rows: string[][]): string {
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
