"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const ink = "var(--ink)", muted = "var(--muted)", line = "var(--line)";
  const font = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif";
  const config = {
    background: null, font: font, view: { stroke: null },
    axis: { labelColor: ink, titleColor: muted, gridColor: line, domainColor: line, tickColor: line,
      titleFontWeight: 500, labelFontSize: 12, titleFontSize: 12 },
    text: { color: ink }, title: { color: ink }
  };
  const options = { actions: false, renderer: "svg", ast: true, config: config };

  function draw(place, spec) {
    return window.vegaEmbed(place, spec, options);
  }

  for (const place of document.querySelectorAll("[data-chart]")) {
    draw(place, data.charts[place.dataset.chart]);
  }

  // Sections open by a link into them, by their address, and for printing.
  const sections = Array.from(document.querySelectorAll(".sections > section > details"));
  const all = document.getElementById("open-all");
  function name() {
    const open = sections.every(section => section.open);
    all.textContent = open ? "Close all" : "Open all";
    all.setAttribute("aria-expanded", open);
  }
  function reveal(hash) {
    const place = document.getElementById(decodeURIComponent(hash.slice(1)));
    if (!place) return;
    const inside = place.matches("section") ? place.querySelector("details") : place;
    for (let at = inside; at; at = at.parentElement) if (at.matches("details")) at.open = true;
    place.scrollIntoView();
  }
  for (const section of sections) section.addEventListener("toggle", name);
  all.addEventListener("click", () => {
    const open = !sections.every(section => section.open);
    for (const section of sections) section.open = open;
  });
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = sections.filter(section => !section.open);
    for (const section of closed) section.open = true;
  });
  window.addEventListener("afterprint", () => { for (const section of closed) section.open = false; });
  window.addEventListener("hashchange", () => reveal(location.hash));
  const framed = document.URL === "about:srcdoc"; // in a notebook's frame, a link to a section would lead to the notebook
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", event => {
      if (framed) event.preventDefault();
      reveal(link.hash);
    });
  }
  if (location.hash) reveal(location.hash);

  // Every picture is on the page once, and shown where it is needed.
  function paint(image) {
    image.addEventListener("load", () =>
      image.classList.toggle("pixels", image.naturalWidth * 2 <= image.width && image.naturalWidth <= 48));
    image.src = data.pictures[image.dataset.picture].uri;
  }
  for (const image of document.querySelectorAll("[data-picture]")) paint(image);

  // Tables: the first rows, and all rows on demand or for a search.
  function show(table) {
    const limit = table.dataset.open ? Infinity : Number(table.dataset.limit);
    const wanted = (table.dataset.search || "").toLowerCase();
    let shown = 0, found = 0;
    for (const row of table.tBodies[0].rows) {
      const fits = !wanted || row.textContent.toLowerCase().includes(wanted);
      found += fits;
      row.hidden = !fits || shown >= limit;
      shown += !row.hidden;
    }
    const more = table.closest(".scroll").nextElementSibling;
    more.hidden = found <= Number(table.dataset.limit);
    more.textContent = table.dataset.open ? "Show fewer" : "Show all " + found.toLocaleString("en");
  }

  function value(row, column, kind) {
    const cell = row.cells[column];
    if (kind === "text") return cell.textContent.trim();
    return cell.dataset.v === "" ? -Infinity : Number(cell.dataset.v);
  }

  function sort(table, header, kind) {
    const column = header.cellIndex;
    const first = kind === "text" ? "ascending" : "descending";
    const other = kind === "text" ? "descending" : "ascending";
    const order = header.getAttribute("aria-sort") === first ? other : first;
    for (const each of header.parentNode.cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const collator = new Intl.Collator("en", { numeric: true });
    const rows = Array.from(table.tBodies[0].rows, row => [value(row, column, kind), row]);
    rows.sort((a, b) => sign * (kind === "text" ? collator.compare(a[0], b[0]) : a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    table.tBodies[0].append(...rows.map(pair => pair[1]));
    show(table);
  }

  for (const table of document.querySelectorAll("table[data-limit]")) {
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    more.addEventListener("click", () => {
      if (table.dataset.open) delete table.dataset.open; else table.dataset.open = "1";
      show(table);
    });
    table.closest(".scroll").after(more);
    for (const button of table.querySelectorAll("button[data-sort]")) {
      button.addEventListener("click", () => sort(table, button.closest("th"), button.dataset.sort));
    }
    show(table);
  }
  for (const input of document.querySelectorAll("input[data-for]")) {
    const table = document.getElementById(input.dataset.for);
    input.addEventListener("input", () => { table.dataset.search = input.value.trim(); show(table); });
  }

  // An annotator's own matrix: the chart of the common one with other numbers.
  const dialog = document.getElementById("detail");
  dialog.querySelector(".close").addEventListener("click", () => dialog.close()); // forms are off in a notebook's frame
  function withCells(spec, cells) {
    const classes = data.annotators.classes, values = [];
    classes.forEach((t, c) => classes.forEach((o, k) =>
      values.push({ true: t, observed: o, share: cells[c * classes.length + k] })));
    const replaced = JSON.parse(JSON.stringify(spec));
    for (const part of [replaced].concat(replaced.layer || [])) {
      if (part.data && part.data.values) part.data.values = values;
    }
    if (replaced.datasets) for (const name of Object.keys(replaced.datasets)) replaced.datasets[name] = values;
    return replaced;
  }
  function facts(row) {
    const heads = row.closest("table").tHead.rows[0].cells;
    return Array.from(row.cells).slice(1).map((cell, k) =>
      heads[k + 1].textContent.trim() + " " + cell.textContent.trim()).join(" · ");
  }
  function element(kind, text, name) {
    const made = document.createElement(kind);
    if (text) made.textContent = text;
    if (name) made.className = name;
    return made;
  }
  function link(address, text) {
    const made = element("a", text);
    made.href = address;
    made.target = "_blank";
    made.rel = "noopener noreferrer";
    return made;
  }
  // Labels of an annotator that are probably wrong; every text is set as text.
  function doubtful(rows) {
    const list = element("ul", "", "doubtful");
    for (const row of rows) {
      const item = element("li", "", "item"), picture = (data.pictures || [])[row.picture];
      if (picture) {
        const image = element("img", "", "picture");
        image.dataset.picture = row.picture;
        image.width = picture.width;
        image.height = picture.height;
        image.alt = "Picture of task " + row.task;
        paint(image);
        item.append(image);
      }
      const about = element("span", "", "about");
      about.append(row.link ? link(row.link, row.task) : row.task, ": labelled ", element("b", row.given),
        ", probably ", element("b", row.label), " (" + row.probability + ")");
      if (row.text) about.append(element("span", row.text, "said"));
      if (!picture && row.picture_link) about.append(" ", link(row.picture_link, "open the picture"));
      item.append(about);
      list.append(item);
    }
    return list;
  }
  for (const button of document.querySelectorAll("[data-annotator]")) {
    button.addEventListener("click", () => {
      const found = data.annotators.rows[button.dataset.annotator];
      const row = document.querySelector("#t-people [data-annotator='" + button.dataset.annotator + "']").closest("tr");
      document.getElementById("detail-name").textContent = "Annotator " + button.textContent;
      document.getElementById("detail-facts").textContent = facts(row);
      const doubts = data.annotators.doubtful[button.dataset.annotator] || [];
      document.getElementById("detail-doubtful").replaceChildren(
        ...(doubts.length ? [element("h3", "Labels that are probably wrong"), doubtful(doubts)] : []));
      const chart = document.getElementById("detail-chart"), note = document.getElementById("detail-note");
      chart.replaceChildren();
      if (found) {
        const thin = data.annotators.classes.filter((_, k) => found.met[k] < 3);
        note.textContent = "Percentage of each true class that the annotator gives each label, as learned by the model." +
          (thin.length ? " The annotator labelled fewer than three tasks of " + thin.join(", ") + "; these rows are unreliable." : "");
        draw(chart, withCells(data.charts.annotator, found.cells));
      } else {
        note.textContent = "This page only includes the matrices of the annotators with the most mistakes. " +
          "In Python: conal.load(folder).annotator_confusion_.";
      }
      dialog.showModal();
    });
  }
})();
